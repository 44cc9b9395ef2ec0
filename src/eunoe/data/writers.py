"""Which client is which writer, where the data say who made each sample."""

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def writer_of_each(writers: Integers, offsets: Integers) -> Integers | None:
    """The writer that each client is, by the writers of its samples; None if one is not exactly one writer.

    Client k has the samples `offsets[k]` to `offsets[k + 1]`.
    """
    clients = len(offsets) - 1
    owners = np.repeat(np.arange(clients), np.diff(offsets))
    pairs = np.unique(np.stack([owners, writers]), axis=1)
    one_each = len(pairs[0]) == clients and len(np.unique(pairs[1])) == clients
    return pairs[1] if one_each and clients else None


def positions_of(values: Integers, among: Integers) -> Integers:
    """Where each value stands among others, which are all different; -1 if it does not."""
    order = np.argsort(among)
    found = among[order]
    at = np.minimum(np.searchsorted(found, values), len(found) - 1)
    return np.where(found[at] == values, order[at], -1)
