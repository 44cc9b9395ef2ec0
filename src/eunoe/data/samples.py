"""Samples and data sets: inputs in their original dtype, with integer labels."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eunoe.errors import InputError


@dataclass(frozen=True, repr=False)
class Samples:
    """Inputs `x` [n, ...] in their original dtype (images [n, H, W] or [n, H, W, C]) and labels `y` [n]."""

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

    def __repr__(self) -> str:
        dtype = str(self.x.dtype).removeprefix("torch.")
        return f"Samples({len(self):,} of {dtype} {list(self.x.shape[1:])})"


@dataclass(frozen=True, repr=False)
class DataSet:
    """A training part and a test part, with class names, writers and normalization if known."""

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
    # How the inputs were made of a table's columns or of text, in what JSON can say.
    encoding: Mapping[str, Any] | None = None

    @cached_property
    def vocabulary(self) -> int | None:
        """How many token ids there are; None if the inputs are no integers."""
        x = self.train.x
        if x.is_floating_point() or x.dtype in (torch.uint8, torch.bool):
            return None
        if self.encoding is not None and "ids" in self.encoding:
            return int(self.encoding["ids"])
        return int(max(x.max(), self.test.x.max())) + 1

    def __repr__(self) -> str:
        return f"DataSet({self.name!r}, train={self.train}, test={self.test}, {self.classes} classes)"


def checksum(*parts: Samples | None) -> str:
    """The SHA-256 of all inputs and labels, the same however they are stored."""
    digest = hashlib.sha256()
    for tensor in (tensor for part in parts if part is not None for tensor in (part.x, part.y)):
        digest.update(np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
