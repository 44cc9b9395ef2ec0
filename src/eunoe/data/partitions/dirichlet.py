"""Clients of one size with a class mix each, as in Hsu et al. 2019 and the TCE and WSM papers.

Each client draws class proportions p ~ Dirichlet(alpha, ..., alpha). The papers then draw its labels
one by one from p; a class that runs out is struck from p, which is renormalized. That is the same as
drawing labels from p without end and rejecting those that have run out, and which of a batch of draws
are rejected does not depend on their order. So here a client draws the counts of all its labels at
once (a multinomial), takes what is left of each class, and draws the rest from the renormalized p: counts
of exactly the same distribution, in at most as many steps as there are classes.

Where every class in p has run out, the papers' renormalization is 0/0; here the client fills up with
a uniform draw from the samples that are left. The samples left over by rounding have no owner.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import Field

from eunoe.data.checks import Array, Integers
from eunoe.data.partitions.base import Division, Partition, ranges, rows_by_class

# Proportions and counts are held for this many clients at a time.
CHUNK = 4096


class Dirichlet(Partition):
    """Clients of equal size, each with its own class mix drawn from a Dirichlet distribution."""

    alpha: float = Field(
        0.1,
        gt=0,
        le=1e6,
        description="Concentration: near 0 one class per client, if large the overall mix.",
    )

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        rows, starts, left = rows_by_class(labels, generator)
        starts, left, size = starts.copy(), left.copy(), len(labels) // self.clients
        owned = []
        for first in range(0, self.clients, CHUNK):
            clients = min(CHUNK, self.clients - first)
            mixes = generator.dirichlet(np.full(len(left), self.alpha), clients)
            counts = np.empty((clients, len(left)), np.int64)
            for k in range(clients):
                counts[k] = draw(mixes[k], left, size, generator)
                left -= counts[k]
            firsts = starts + np.cumsum(counts, axis=0) - counts
            starts += counts.sum(0)
            owned.append(rows[ranges(firsts.ravel(), counts.ravel())])
        return np.concatenate(owned), np.arange(self.clients + 1) * size


def draw(mix: NDArray[np.float64], left: Integers, size: int, generator: Generator) -> Integers:
    """Draw how many of the remaining samples of each class a client with this mix takes."""
    taken: Integers = np.minimum(generator.multinomial(size, mix), left)
    while missing := size - int(taken.sum()):
        mix = np.where(taken < left, mix, 0.0)
        mass = mix.sum()
        # Below this the renormalized mix would lose its precision.
        if mass < 1e-280:
            return taken + generator.multivariate_hypergeometric(left - taken, missing, method="marginals")
        mix = mix / mass
        taken = np.minimum(taken + generator.multinomial(missing, mix), left)
    return taken
