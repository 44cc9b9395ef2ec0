"""The base class of partitions, and the index arithmetic that they share.

A partition maps labels and a generator to `(order, offsets)`: client k owns the rows
`order[offsets[k]:offsets[k + 1]]`, in any order. A row has at most one owner.
"""

from abc import abstractmethod
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.random import Generator
from pydantic import Field

from eunoe.config.options import Options
from eunoe.core.tasks import CLASSES, TaskName
from eunoe.data.checks import Array, Integers
from eunoe.errors import InputError

# The rows of all clients, concatenated, and the offset of each client.
Division: TypeAlias = tuple[Integers, Integers]


class Partition(Options):
    """A way to divide samples among clients."""

    clients: int = Field(ge=1, description="Number of clients.")

    # Partitions that do not use labels support every task.
    tasks: ClassVar[tuple[TaskName, ...]] = CLASSES

    def __call__(self, labels: Array, generator: Generator, groups: Array | None = None) -> Division:
        """Return the rows of all clients, concatenated, and the offset of each client."""
        labels = np.asarray(labels)
        whole = labels.ndim == 1 and np.issubdtype(labels.dtype, np.integer)
        if self.tasks == CLASSES and not whole:
            raise InputError(
                f"this partition divides by class, but labels are {labels.dtype} {list(labels.shape)}, not "
                "one integer each: use partition 'natural', 'iid' or 'quantity'"
            )
        if len(labels) < self.clients:
            raise InputError(f"{self.clients:,} clients cannot share {len(labels):,} samples; use fewer")
        return self.divide(labels, generator, groups)

    @abstractmethod
    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        """Return order and offsets for validated labels; override this."""


def rows_by_class(labels: Array, generator: Generator) -> tuple[Integers, Integers, Integers]:
    """Return the shuffled rows sorted by class, and where each class that occurs starts and its count."""
    shuffled = generator.permutation(len(labels))
    rows = shuffled[np.argsort(labels[shuffled], kind="stable")]
    counts = np.unique(labels, return_counts=True)[1].astype(np.int64)
    return rows, offsets_of(counts)[:-1], counts


def offsets_of(sizes: Integers) -> Integers:
    """Return the offsets of consecutive parts of these sizes, including the end of the last one."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def ranges(starts: Integers, sizes: Integers) -> Integers:
    """Return the indices `start .. start + size - 1` of each part, one part after the other."""
    offsets = offsets_of(sizes)
    return np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])


def by_owner(rows: Integers, owners: Integers, clients: int) -> Division:
    """Return order and offsets from the owner of each row."""
    return rows[np.argsort(owners, kind="stable")], offsets_of(np.bincount(owners, minlength=clients))


def check_min_size(samples: int, clients: int, min_size: int) -> None:
    """Raise InputError if there are fewer samples than the clients need together."""
    if clients * min_size > samples:
        raise InputError(
            f"min_size={min_size} is above the {samples // clients} samples per client; lower it"
        )
