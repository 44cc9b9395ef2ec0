"""Natural clients of the data: one for each writer, speaker or device."""

import numpy as np
from numpy.random import Generator
from pydantic import Field

from eunoe.core.tasks import EVERY
from eunoe.data.checks import Array
from eunoe.data.partitions.base import Division, Partition, by_owner
from eunoe.errors import InputError


class Natural(Partition):
    """One client for each group id (writer) of the data, in the order of the ids."""

    clients: int = Field(0, ge=0, description="How many of the groups to use, chosen at random; 0 uses all.")
    min_size: int = Field(1, ge=1, description="Groups with fewer samples are dropped.")

    tasks = EVERY

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        if groups is None:
            raise InputError(
                "partition 'natural' needs a group id (writer) for each sample, but the data have none"
            )
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
        client = np.full(len(sizes), -1, np.int64)
        client[used] = np.arange(len(used))
        owners = client[group]
        rows = np.flatnonzero(owners >= 0)
        return by_owner(rows, owners[rows], len(used))
