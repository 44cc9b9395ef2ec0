"""Blocks of one label dealt to clients, as in McMahan et al. 2017 and the FedCurv paper.

Each class, in random order, is cut into blocks of one size: the largest that gives as many blocks as
are to be dealt. Blocks are dealt at random, so that a client may get two of the same class. What a
class has beyond its last whole block, and the blocks beyond those dealt, have no owner. On MNIST 96
clients of two blocks get 192 of the 193 blocks of 306 images: 58,752 images.
"""

import numpy as np
from numpy.random import Generator
from pydantic import Field

from eunoe.data.checks import Array, Integers
from eunoe.data.partitions.base import Division, Partition, ranges, rows_by_class
from eunoe.errors import InputError


class Shards(Partition):
    """Blocks of a single label, the same number of blocks for each client."""

    shards: int = Field(2, ge=1, description="Blocks of a single label per client.")

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        rows, starts, counts = rows_by_class(labels, generator)
        dealt = self.clients * self.shards
        size = block_size(counts, dealt)
        blocks = counts // size
        # The first row of every block: those of a class stand `size` apart.
        firsts = np.repeat(starts, blocks) + ranges(np.zeros_like(blocks), blocks) * size
        chosen = generator.permutation(len(firsts))[:dealt]
        order = rows[(firsts[chosen, None] + np.arange(size)).ravel()]
        return order, np.arange(self.clients + 1) * (self.shards * size)


def block_size(counts: Integers, blocks: int) -> int:
    """Return the largest size at which classes of these counts can be cut into this many blocks."""
    if blocks > (total := int(counts.sum())):
        raise InputError(
            f"{total:,} samples cannot be cut into {blocks:,} shards; use fewer clients or shards"
        )
    low, high = 1, total // blocks
    while low < high:
        middle = (low + high + 1) // 2
        if (counts // middle).sum() >= blocks:
            low = middle
        else:
            high = middle - 1
    return low
