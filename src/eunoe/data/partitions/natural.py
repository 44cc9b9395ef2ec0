"""Natural clients of the data: one for each writer, speaker or device."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from eunoe.core.tasks import EVERY
from eunoe.data.partitions.base import Integers, Partition, by_owner
from eunoe.errors import InputError


class Natural(Partition):
    """One client for each group id (writer) of the data, in the order of the ids."""

    clients: int = Field(
        0, ge=0, description="How many of the groups to keep, chosen at random; 0 keeps all."
    )
    min_size: int = Field(1, ge=1, description="Groups with fewer samples are left out.")

    tasks = EVERY

    def divide(
        self, labels: NDArray[Any], generator: np.random.Generator, groups: NDArray[Any] | None
    ) -> tuple[Integers, Integers]:
        if groups is None:
            raise InputError(
                "the partition 'natural' needs a group id (writer) for each sample; the data have none"
            )
        if len(groups) != len(labels):
            raise InputError(
                f"{len(labels):,} samples have {len(groups):,} group ids; there must be one each"
            )
        _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        kept = np.flatnonzero(sizes >= self.min_size)
        if len(kept) < max(1, self.clients):
            raise InputError(
                f"{len(kept):,} of {len(sizes):,} groups have min_size = {self.min_size:,} samples;"
                f" {max(1, self.clients):,} are needed"
            )
        if self.clients:
            kept = np.sort(generator.choice(kept, self.clients, replace=False))
        client = np.full(len(sizes), -1, np.int64)
        client[kept] = np.arange(len(kept))
        owners = client[group]
        rows = np.flatnonzero(owners >= 0)
        return by_owner(rows, owners[rows], len(kept))
