"""Clients with the same class mix: of equal size, or of sizes from a Dirichlet draw."""

import numpy as np
from numpy.random import Generator
from pydantic import Field

from eunoe.core.tasks import EVERY
from eunoe.data.checks import Array
from eunoe.data.partitions.base import Division, Partition, check_min_size


class Iid(Partition):
    """All samples in random order, divided into sizes that differ by one at most."""

    tasks = EVERY

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        offsets = np.arange(self.clients + 1, dtype=np.int64) * len(labels) // self.clients
        return generator.permutation(len(labels)), offsets


class Quantity(Partition):
    """Client sizes drawn from a Dirichlet distribution, classes mixed at random."""

    alpha: float = Field(
        0.5, gt=0, le=1e6, description="Concentration: the smaller, the more unequal the sizes."
    )
    min_size: int = Field(1, ge=1, description="Minimum number of samples per client.")

    tasks = EVERY

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        check_min_size(len(labels), self.clients, self.min_size)
        spare = len(labels) - self.clients * self.min_size
        ends = np.cumsum(generator.dirichlet(np.full(self.clients, self.alpha)))
        # Every client gets the minimum; only the rest is divided by the draw.
        extra = np.floor(ends / ends[-1] * spare).astype(np.int64)
        offsets = np.arange(self.clients + 1) * self.min_size + np.concatenate([[0], extra])
        return generator.permutation(len(labels)), offsets
