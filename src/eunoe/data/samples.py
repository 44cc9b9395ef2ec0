"""Samples and data sets: inputs in the type they came in, with integer labels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from eunoe.errors import InputError


@dataclass(frozen=True)
class Samples:
    """Inputs `x` [n, ...] in the type given (images [n, H, W] or [n, H, W, channels]) and labels `y` [n]."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise InputError(f"{len(self.x)} inputs have {len(self.y)} labels; there must be one label each")
        if self.y.dtype != torch.int64 or self.y.ndim != 1:
            raise InputError(
                f"labels must be one integer (int64) each, not {self.y.dtype} {tuple(self.y.shape)}"
            )

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class DataSet:
    """A training part and a test part, and what is known about both."""

    name: str
    train: Samples
    test: Samples
    classes: int
    writers_train: Tensor | None = None
    writers_test: Tensor | None = None
    class_names: tuple[str, ...] | None = None
    # Per channel, of inputs scaled to [0, 1] if they are bytes, else of the inputs as they are.
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
