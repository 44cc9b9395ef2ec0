"""Clients of unequal size: each class is divided among them by its own Dirichlet draw.

This is the partition of NIID-Bench, MOON and FedNTD, which the Flashback paper follows. Class after
class, shares over the clients are drawn from Dirichlet(alpha, ..., alpha); a client that already has
n / clients samples gets none of the next classes. Everything is drawn again until every client has min_size
samples. If the shares of all clients that are not full underflow to zero (at the smallest alpha), one of
them at random takes the whole class, which is the limit of the division.
"""

import numpy as np
from numpy.random import Generator
from pydantic import Field

from eunoe.data.checks import Array, Integers
from eunoe.data.partitions.base import Division, Partition, by_owner, check_min_size, rows_by_class
from eunoe.errors import InputError


class DirichletByClass(Partition):
    """Clients of unequal size; each class is divided among them by a Dirichlet draw."""

    alpha: float = Field(
        0.1, gt=0, le=1e6, description="Concentration: the smaller, the fewer clients share a class."
    )
    min_size: int = Field(10, ge=1, description="Minimum number of samples per client.")
    draws: int = Field(1000, ge=1, description="Number of draws after which an error is raised.")

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        check_min_size(len(labels), self.clients, self.min_size)
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

    def _draw(self, counts: Integers, generator: Generator) -> Integers:
        """Draw the owner of each sample, class after class."""
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
