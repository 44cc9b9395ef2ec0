"""Clients of unequal size: each class is divided among them by its own Dirichlet draw.

This is the partition of NIID-Bench, MOON and FedNTD, which the Flashback paper follows. Class after
class, shares over the clients are drawn from Dirichlet(alpha, ..., alpha); a client that has already
n / clients samples gets none of the next classes. All is drawn again until every client has min_size
samples. Should a class's whole mass fall on clients that are full (the others' shares underflow to
zero, at the smallest alpha), one of the others takes the class: what the division tends to there.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from eunoe.data.partitions.base import Integers, Partition, by_owner, rows_by_class
from eunoe.errors import InputError


class DirichletByClass(Partition):
    """Clients of unequal size; each class is divided among them by a Dirichlet draw."""

    alpha: float = Field(
        0.1, gt=0, le=1e6, description="Concentration: the smaller, the fewer clients share a class."
    )
    min_size: int = Field(10, ge=1, description="Minimum number of samples per client.")
    draws: int = Field(1000, ge=1, description="Number of draws after which an error is raised.")

    def divide(
        self, labels: NDArray[Any], generator: np.random.Generator, groups: NDArray[Any] | None
    ) -> tuple[Integers, Integers]:
        if self.clients * self.min_size > len(labels):
            raise InputError(
                f"{len(labels):,} samples cannot give {self.clients:,} clients {self.min_size:,} each;"
                f" min_size can be at most {len(labels) // self.clients:,}"
            )
        rows, _, counts = rows_by_class(labels, generator)
        fewest = self.clients
        for drawn in range(1, self.draws + 1):
            owners = self._draw(counts, generator)
            small = int((np.bincount(owners, minlength=self.clients) < self.min_size).sum())
            if small == 0:
                return by_owner(rows, owners, self.clients)
            fewest = min(fewest, small)
            if drawn >= 20 and fewest > 30:
                # With this many small clients, no number of draws will succeed.
                break
        raise InputError(
            f"in {drawn:,} draws at least {fewest:,} of {self.clients:,} clients had fewer than min_size ="
            f" {self.min_size:,} samples; raise alpha, or lower min_size or the number of clients"
        )

    def _draw(self, counts: Integers, generator: np.random.Generator) -> Integers:
        """The owner of each sample, class after class."""
        sizes = np.zeros(self.clients, np.int64)
        owners = []
        for count in counts:
            open_clients = sizes * self.clients < counts.sum()
            shares = generator.dirichlet(np.full(self.clients, self.alpha)) * open_clients
            if shares.sum() < 1e-280:
                shares[generator.choice(np.flatnonzero(open_clients))] = 1.0
            ends = np.cumsum(shares)
            parts = np.diff(np.floor(ends / ends[-1] * count).astype(np.int64), prepend=0)
            sizes += parts
            owners.append(np.repeat(np.arange(self.clients), parts))
        return np.concatenate(owners)
