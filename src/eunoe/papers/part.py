"""A part of a data set, for runs at small scale."""

import numpy as np
from torch import Tensor, from_numpy

from eunoe.core.rng import generator
from eunoe.data.loading import load
from eunoe.data.samples import DataSet, Samples


def part(*, of: str, limit: int = 0, test_limit: int = 0) -> DataSet:
    """A fixed subset of another data set: numbers of training and test samples, 0 for all."""
    whole = load(of)
    train, test = _rows(len(whole.train), limit, "train"), _rows(len(whole.test), test_limit, "test")
    return DataSet(
        name=f"{whole.name} ({len(train):,} of {len(whole.train):,} samples)",
        train=Samples(whole.train.x[train], whole.train.y[train]),
        test=Samples(whole.test.x[test], whole.test.y[test]),
        classes=whole.classes,
        writers_train=None if whole.writers_train is None else whole.writers_train[train],
        writers_test=None if whole.writers_test is None else whole.writers_test[test],
        class_names=whole.class_names,
        mean=whole.mean,
        std=whole.std,
    )


def _rows(size: int, limit: int, name: str) -> Tensor:
    """A fixed random subset of rows, in order."""
    if not 0 < limit < size:
        return from_numpy(np.arange(size))
    return from_numpy(np.sort(generator(0, f"part of the {name} samples").permutation(size)[:limit]))
