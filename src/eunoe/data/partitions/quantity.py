"""Clients that differ in size only: sizes from a Dirichlet draw, the same class mix for all."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from eunoe.core.tasks import EVERY
from eunoe.data.partitions.base import Integers, Partition
from eunoe.errors import InputError


class Quantity(Partition):
    """Client sizes drawn from a Dirichlet distribution, classes mixed at random."""

    alpha: float = Field(
        0.5, gt=0, le=1e6, description="Concentration: the smaller, the more unequal the sizes."
    )
    min_size: int = Field(1, ge=1, description="Minimum number of samples per client.")

    tasks = EVERY

    def divide(
        self, labels: NDArray[Any], generator: np.random.Generator, groups: NDArray[Any] | None
    ) -> tuple[Integers, Integers]:
        spare = len(labels) - self.clients * self.min_size
        if spare < 0:
            raise InputError(
                f"{len(labels):,} samples cannot give {self.clients:,} clients {self.min_size:,} each;"
                f" min_size can be at most {len(labels) // self.clients:,}"
            )
        ends = np.cumsum(generator.dirichlet(np.full(self.clients, self.alpha)))
        # Every client gets the minimum; only the remainder is divided by the draw.
        extra = np.floor(ends / ends[-1] * spare).astype(np.int64)
        offsets = np.arange(self.clients + 1) * self.min_size + np.concatenate([[0], extra])
        return generator.permutation(len(labels)), offsets
