"""Partitions that do not use labels: clients with the same class mix, and the natural clients of the data."""

import numpy as np
from numpy.random import Generator
from pydantic import Field

from eunoe.core.tasks import EVERY
from eunoe.data.checks import Array
from eunoe.data.partitions.base import Division, Partition, by_owner, check_min_size
from eunoe.errors import InputError


class Iid(Partition):
    """All samples in random order, divided into sizes that differ by one at most."""

    tasks = EVERY

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        offsets = np.arange(self.clients + 1, dtype=np.int64) * len(labels) // self.clients
        return generator.permutation(len(labels)), offsets


class Quantity(Partition):
    """Client sizes drawn from a Dirichlet distribution, classes mixed at random."""

    alpha: float = Field(0.5, gt=0, le=1e6, description="Concentration: small means unequal sizes.")
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


class Natural(Partition):
    """One client for each group id (writer) of the data, in the order of the ids."""

    clients: int = Field(0, ge=0, description="How many of the groups to use, chosen at random; 0 uses all.")
    min_size: int = Field(1, ge=1, description="Groups with fewer samples are dropped.")

    tasks = EVERY

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        if groups is None:
            raise InputError("partition 'natural' needs a group id (writer) per sample; the data have none")
        if len(groups) != len(labels):
            raise InputError(f"{len(labels):,} samples have {len(groups):,} group ids; each sample needs one")
        _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        used = np.flatnonzero(sizes >= self.min_size)
        if len(used) < max(1, self.clients):
            raise InputError(
                f"{len(used):,} of {len(sizes):,} groups have min_size = {self.min_size:,} samples;"
                f" {max(1, self.clients):,} are needed"
            )
        if self.clients:
            used = np.sort(generator.choice(used, self.clients, replace=False))
        rows = np.flatnonzero(np.isin(group, used))
        return by_owner(rows, np.searchsorted(used, group[rows]), len(used))
