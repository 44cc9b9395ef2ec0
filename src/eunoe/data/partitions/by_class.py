"""Partitions by class: each client gets its own class mix."""

from bisect import bisect_right

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from pydantic import Field

from eunoe.data.checks import Array, Integers
from eunoe.data.partitions.base import Division, Partition, by_owner, check_min_size, ranges, rows_by_class
from eunoe.errors import InputError

# Proportions and counts are held for this many clients at a time.
CHUNK = 4096


# As in Hsu et al. 2019 and the TCE and WSM papers, which draw a client's labels one by one from its mix
# p ~ Dirichlet(alpha) and remove a class that runs out. Here a client draws all counts at once (multinomial),
# takes what is left of each class, and draws the rest from the renormalized p: the same distribution. Where
# all classes of p have run out, the papers divide 0 by 0; here the client draws uniformly from what is left.
# Samples left over by rounding have no owner.
class Dirichlet(Partition):
    """Clients of equal size, each with its own class mix drawn from a Dirichlet distribution."""

    alpha: float = Field(0.1, gt=0, le=1e6, description="Concentration: 0 one class, large the overall mix.")

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


# The partition of NIID-Bench, MOON, FedNTD and Flashback. Class after class, shares over clients are drawn
# from Dirichlet(alpha); a client that has n / clients samples gets no more. All is drawn again until every
# client has min_size samples. If the shares of open clients all underflow to 0, one of them gets the class.
class DirichletByClass(Partition):
    """Clients of unequal size; each class is divided among them by a Dirichlet draw."""

    alpha: float = Field(0.1, gt=0, le=1e6, description="Concentration: small gives a class to few clients.")
    min_size: int = Field(10, ge=1, description="Minimum number of samples per client.")
    draws: int = Field(1000, ge=1, description="Number of draws after which an error is raised.")

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        check_min_size(len(labels), self.clients, self.min_size)
        rows, _, counts = rows_by_class(labels, generator)
        fewest = self.clients
        for drawn in range(1, self.draws + 1):
            owners = self._draw(counts, generator)
            fewest = min(fewest, int((np.bincount(owners, minlength=self.clients) < self.min_size).sum()))
            if fewest == 0:
                return by_owner(rows, owners, self.clients)
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


# Clients per class are in proportion to its samples, which are divided evenly among them, so that all samples
# have an owner unless there are fewer slots than classes. Classes are drawn client by client, weighted by
# their open slots; one with as many open slots as clients left goes to each of them, so that all differ.
class Classes(Partition):
    """Exactly k classes for each client, each class divided evenly among its clients."""

    classes: int = Field(2, ge=1, description="Number of classes per client.")

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        rows, starts, counts = rows_by_class(labels, generator)
        chosen = self._choose(self._count_slots(counts), generator)
        # The pairs (client, class) by class, clients in order, as the rows are ordered.
        pairs = np.argsort(chosen.ravel(), kind="stable")
        slots = np.bincount(chosen.ravel(), minlength=len(counts))
        assigned = np.flatnonzero(slots)
        rank = ranges(np.zeros_like(slots), slots)
        least, more = np.divmod(counts[assigned], slots[assigned])
        sizes = np.repeat(least, slots[assigned]) + (rank < np.repeat(more, slots[assigned]))
        used = ranges(starts[assigned], counts[assigned])
        return by_owner(rows[used], np.repeat(pairs // self.classes, sizes), self.clients)

    def _count_slots(self, counts: Integers) -> Integers:
        """Return the number of clients per class: in proportion to its samples, at most one per sample."""
        most = np.minimum(counts, self.clients)
        slots_needed = self.clients * self.classes
        if most.sum() < slots_needed:
            raise InputError(f"{self.clients:,} clients cannot have {self.classes:,} classes each; use fewer")
        slots = np.full(len(counts), int(slots_needed >= len(counts)), np.int64)
        while (missing := slots_needed - int(slots.sum())) > 0:
            weights = np.where(slots < most, counts, 0)
            more = np.minimum(missing * weights // weights.sum(), most - slots)
            if not more.any():
                priority = np.where(slots < most, counts / (slots + 1), 0)
                more[np.argsort(-priority, kind="stable")[:missing]] = 1
            slots += more
        return slots

    def _choose(self, slots: Integers, generator: Generator) -> Integers:
        """Draw the classes of each client [clients, k]."""
        chosen = np.empty((self.clients, self.classes), np.int64)
        left = slots.copy()
        for k in range(self.clients):
            # The k smallest of exponential waiting times with rates w are a draw without replacement by w.
            waiting = generator.standard_exponential(len(left))
            with np.errstate(divide="ignore"):
                waiting /= left
            waiting[left == self.clients - k] = -1.0
            chosen[k] = np.argpartition(waiting, self.classes - 1)[: self.classes]
            left[chosen[k]] -= 1
        return chosen


# As in McMahan et al. 2017 and the FedCurv paper. Each class, in random order, is cut into blocks of the
# largest size that gives enough blocks; they are dealt at random, so that a client may get two of one class.
# What is left has no owner: on MNIST 96 clients of two blocks get 192 of 193 blocks of 306 images.
class Shards(Partition):
    """Blocks of a single label, the same number of blocks for each client."""

    shards: int = Field(2, ge=1, description="Blocks of a single label per client.")

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        rows, starts, counts = rows_by_class(labels, generator)
        needed = self.clients * self.shards
        size = block_size(counts, needed)
        blocks = counts // size
        # The first row of every block: those of a class stand `size` apart.
        firsts = np.repeat(starts, blocks) + ranges(np.zeros_like(blocks), blocks) * size
        chosen = generator.permutation(len(firsts))[:needed]
        order = rows[(firsts[chosen, None] + np.arange(size)).ravel()]
        return order, np.arange(self.clients + 1) * (self.shards * size)


def block_size(counts: Integers, blocks: int) -> int:
    """Return the largest size at which classes of these counts can be cut into this many blocks."""
    if blocks > (total := int(counts.sum())):
        raise InputError(f"{total:,} samples cannot be cut into {blocks:,} shards; use fewer shards")
    sizes = range(1, total // blocks + 1)
    return bisect_right(sizes, -blocks, key=lambda size: -int((counts // size).sum()))
