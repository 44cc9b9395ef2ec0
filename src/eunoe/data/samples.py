"""Samples and data sets: inputs in their original dtype, with their targets."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eunoe.core.fields import Fields, Stored, describe_input, leaves
from eunoe.core.tasks import CLASSIFICATION, Task
from eunoe.errors import InputError


@dataclass(frozen=True, repr=False)
class Samples:
    """Inputs `x` [n, ...] in their original dtype (images [n, H, W] or [n, H, W, C]) and labels `y` [n].

    For multilabel and regression, `y` is [n, outputs] in float32, for language models [n, length]. Inputs of
    varying length are `Ragged`, those of several tensors are `Fields`.
    """

    x: Stored
    y: Tensor

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise InputError(f"{len(self.x)} inputs have {len(self.y)} labels; each input needs one")
        tokens = self.y.dtype == torch.int64 and isinstance(self.x, Tensor) and self.y.shape == self.x.shape
        if not tokens and (self.y.dtype, self.y.ndim) not in ((torch.int64, 1), (torch.float32, 2)):
            raise InputError(
                "labels must be int64 [n], float32 [n, outputs] or, for language models, int64 [n, length], "
                f"not {self.y.dtype} {list(self.y.shape)}"
            )

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Samples({len(self):,} of {describe_input(self.x)})"

    @property
    def tensor(self) -> Tensor:
        """The inputs as one tensor; InputError if they are more."""
        if isinstance(self.x, Tensor):
            return self.x
        raise InputError(f"inputs must be one tensor of fixed shape, not {describe_input(self.x)}")


@dataclass(frozen=True, repr=False)
class DataSet:
    """A training part and a test part, with class names, writers and normalization if known."""

    name: str
    train: Samples
    test: Samples
    # The number of outputs of a model: classes, labels or numbers to predict.
    classes: int
    writers_train: Tensor | None = None
    writers_test: Tensor | None = None
    class_names: tuple[str, ...] | None = None
    # Per channel; of bytes, after scaling to [0, 1].
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    # How a table's columns or text were encoded, as JSON values.
    encoding: Mapping[str, Any] | None = None
    # The names of writers 0, 1, ...
    writer_names: tuple[str, ...] | None = None
    # The frozen encoder that made the inputs, if they are its features.
    backbone: Any = None
    task: Task = CLASSIFICATION

    @cached_property
    def vocabulary(self) -> int | None:
        """The number of token ids; None if the inputs are not token ids, or are fields without encoding."""
        known: int | None = (self.encoding or {}).get("ids")
        if isinstance(self.train.x, Fields):
            return known
        x, x_test = leaves(self.train.x)[0], leaves(self.test.x)[0]
        if x.is_floating_point() or x.dtype in (torch.uint8, torch.bool):
            return None
        return int(max(x.max(), x_test.max())) + 1 if known is None else known

    @property
    def owners(self) -> NDArray[Any] | None:
        """The writer of each training sample, if known."""
        return None if self.writers_train is None else self.writers_train.numpy()

    def with_test_writers(self, writers: NDArray[Any]) -> "DataSet":
        """Return the data without test samples of training writers other than these."""
        if self.writers_test is None or self.writers_train is None:
            return self
        wanted = torch.isin(self.writers_test, torch.from_numpy(np.unique(writers)))
        # Writers that occur only in the test part stay.
        used = wanted | ~torch.isin(self.writers_test, self.writers_train)
        if bool(used.all()):
            return self
        test = Samples(self.test.x[used], self.test.y[used])
        return replace(self, test=test, writers_test=self.writers_test[used])

    def has_classes_of(self, other: "DataSet") -> bool:
        """Return whether labels mean the same as in another set; negative labels mean that there are none."""
        same = self.classes == other.classes and self.class_names == other.class_names
        labeled = self.task.name == "regression" or bool((self.train.y >= 0).all())
        return same and self.task == other.task and labeled

    def __repr__(self) -> str:
        outputs = f"{self.classes} {self.task.outputs}"
        return f"DataSet({self.name!r}, train={self.train}, test={self.test}, {outputs})"


def checksum(*parts: Samples | None) -> str:
    """Return the SHA-256 of all inputs and labels, independent of their memory layout."""
    digest = hashlib.sha256()
    for tensor in (tensor for part in parts if part is not None for tensor in (*leaves(part.x), part.y)):
        digest.update(tensor_bytes(tensor))
    return digest.hexdigest()


def tensor_bytes(tensor: Tensor) -> memoryview:
    """Return the values of a tensor as bytes, in row-major order."""
    return np.ascontiguousarray(tensor.cpu().numpy()).reshape(-1).view(np.uint8).data
