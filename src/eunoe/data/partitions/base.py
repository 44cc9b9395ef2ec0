"""The contract of a partition, and the index arithmetic that partitions share.

A partition is called with the labels and a generator and returns `(order, offsets)`: client k owns
the rows `order[offsets[k]:offsets[k + 1]]`, in arbitrary order. No row has two owners; some may
have none.
"""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from eunoe.config.options import Options
from eunoe.core.tasks import CLASSES, TaskName
from eunoe.errors import InputError

Integers = NDArray[np.int64]


class Partition(Options):
    """A way to divide samples among clients."""

    clients: int = Field(ge=1, description="Number of clients.")

    # Those that do not look at labels serve every task.
    tasks: ClassVar[tuple[TaskName, ...]] = CLASSES

    def __call__(
        self, labels: NDArray[Any], generator: np.random.Generator, groups: NDArray[Any] | None = None
    ) -> tuple[Integers, Integers]:
        """The rows of all clients, concatenated, and the offset of each client."""
        labels = np.asarray(labels)
        whole = labels.ndim == 1 and np.issubdtype(labels.dtype, np.integer)
        if self.tasks == CLASSES and not whole:
            raise InputError(
                f"the partition divides by class and labels are {labels.dtype} {list(labels.shape)}, not one "
                "integer each: take partition 'natural', 'iid' or 'quantity'"
            )
        if len(labels) < self.clients:
            raise InputError(
                f"{self.clients:,} clients cannot share {len(labels):,} samples; use at most {len(labels):,}"
            )
        return self.divide(labels, generator, groups)

    @abstractmethod
    def divide(
        self, labels: NDArray[Any], generator: np.random.Generator, groups: NDArray[Any] | None
    ) -> tuple[Integers, Integers]:
        """The order and offsets for validated labels; override this."""


class ClassRows(NamedTuple):
    """The rows of each class that occurs, in random order: `rows[starts[c]:starts[c] + counts[c]]`."""

    rows: Integers
    starts: Integers
    counts: Integers


def rows_by_class(labels: NDArray[Any], generator: np.random.Generator) -> ClassRows:
    """Shuffle the rows and sort them by class; classes without a sample are left out."""
    shuffled = generator.permutation(len(labels))
    rows = shuffled[np.argsort(labels[shuffled], kind="stable")]
    counts = np.unique(labels, return_counts=True)[1].astype(np.int64)
    return ClassRows(rows, offsets_of(counts)[:-1], counts)


def offsets_of(sizes: Integers) -> Integers:
    """Offsets of consecutive parts of these sizes, including the end of the last one."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def ranges(starts: Integers, sizes: Integers) -> Integers:
    """The indices `start .. start + size - 1` of each part, one part after the other."""
    offsets = offsets_of(sizes)
    return np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])


def by_owner(rows: Integers, owners: Integers, clients: int) -> tuple[Integers, Integers]:
    """Order and offsets from the owner of each row."""
    return rows[np.argsort(owners, kind="stable")], offsets_of(np.bincount(owners, minlength=clients))
