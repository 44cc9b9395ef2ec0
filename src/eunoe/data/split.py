"""Splits of samples into training, validation and test parts."""

import numpy as np
from numpy.typing import NDArray

from eunoe.core.rng import generator
from eunoe.data.checks import Integers
from eunoe.errors import InputError


def split_clients(
    order: Integers,
    offsets: Integers,
    generator: np.random.Generator,
    validation: float = 0.1,
    test: float = 0.0,
) -> tuple[Integers, Integers, Integers]:
    """Shuffle the rows within each client; return them, and where its training and validation parts end.

    A part's size is its share of the client's samples, rounded half up; the rest is for training. If a client
    is too small for that, first the test part and then the validation part shrinks, so that at least one
    training sample is left.
    """
    sizes = np.diff(offsets)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    shuffled = generator.permutation(len(order))
    mixed = order[shuffled[np.argsort(owners[shuffled], kind="stable")]]
    spare = np.maximum(sizes - 1, 0)
    validating = np.minimum(part_size(sizes, validation), spare)
    testing = np.minimum(part_size(sizes, test), spare - validating)
    validation_end = offsets[1:] - testing
    return mixed, validation_end - validating, validation_end


def part_size(sizes: Integers, share: float) -> Integers:
    """Return a share of each size, rounded half up."""
    # The last term rounds up halves that the product just misses, such as 50 * 0.29.
    nearest: Integers = np.floor(sizes * share + 0.5 + 1e-9).astype(np.int64)
    return nearest


def draw_test_rows(samples: int, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask of the samples that a random test part of this share consists of."""
    tested = round(share * samples)
    if not 0 < tested < samples:
        raise InputError(f"a test share of {share:g} of {samples} samples leaves one part empty")
    return _mask(samples, rng.permutation(samples)[:tested])


def fixed_test_rows(groups: Integers, percent: int) -> NDArray[np.bool_]:
    """Return a mask of the test part: `percent` of each group's rows, rounded down, always the same ones."""
    draw = generator(0, "rows held out for the test part").random(len(groups))
    order = np.lexsort((draw, groups))
    starts, counts = np.unique(groups[order], return_index=True, return_counts=True)[1:]
    rank = np.arange(len(groups)) - np.repeat(starts, counts)
    return _mask(len(groups), order[rank < np.repeat(counts * percent // 100, counts)])


def every_fifth_row(groups: Integers) -> NDArray[np.bool_]:
    """Return a mask of every fifth row of each group, in file order."""
    return _mask(len(groups), np.concatenate([np.flatnonzero(groups == g)[4::5] for g in np.unique(groups)]))


def _mask(length: int, rows: Integers) -> NDArray[np.bool_]:
    mask = np.zeros(length, np.bool_)
    mask[rows] = True
    return mask
