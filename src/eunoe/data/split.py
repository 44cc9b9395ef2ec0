"""The split of each client's samples into training, validation and test parts."""

from typing import NamedTuple

import numpy as np

from eunoe.data.partitions.base import Integers
from eunoe.errors import InputError


class Parts(NamedTuple):
    """Client k trains on `order[offsets[k]:train_end[k]]`, validates on the rows from there to
    `validation_end[k]`, and tests on the rows from there to `offsets[k + 1]`."""

    order: Integers
    train_end: Integers
    validation_end: Integers


def split(
    order: Integers,
    offsets: Integers,
    generator: np.random.Generator,
    validation: float = 0.1,
    test: float = 0.0,
) -> Parts:
    """Shuffle the rows within each client and compute where its parts end.

    A part's size is its share of the client's samples to the nearest whole number, halves upwards;
    the rest is for training. A client too small for that gives up test samples first, then
    validation samples, so that one is left to train on.
    """
    check_shares(validation, test)
    sizes = np.diff(offsets)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    shuffled = generator.permutation(len(order))
    mixed = order[shuffled[np.argsort(owners[shuffled], kind="stable")]]
    spare = np.maximum(sizes - 1, 0)
    validating = np.minimum(part_size(sizes, validation), spare)
    testing = np.minimum(part_size(sizes, test), spare - validating)
    validation_end = offsets[1:] - testing
    return Parts(mixed, validation_end - validating, validation_end)


def check_shares(validation: float, test: float = 0.0) -> None:
    """Refuse shares that are negative or leave nothing to train on."""
    if not (validation >= 0 and test >= 0 and validation + test < 1):
        raise InputError(
            f"validation = {validation} and test = {test} must be shares from 0, together below 1,"
            " so that samples are left to train on"
        )


def part_size(sizes: Integers, share: float) -> Integers:
    """A share of each size, to the nearest whole number, halves upwards."""
    # The last term rounds up halves that the product just misses, such as 50 * 0.29.
    nearest: Integers = np.floor(sizes * share + 0.5 + 1e-9).astype(np.int64)
    return nearest
