"""A part of a data set, of its samples or of its pixels, for runs at small and medium scale."""

import numpy as np
import torch
from torch import Tensor, from_numpy

from eunoe.core.rng import generator
from eunoe.data.loading import load
from eunoe.data.samples import DataSet, Samples
from eunoe.errors import InputError


def part(*, of: str, limit: int = 0, test_limit: int = 0, pool: int = 1) -> DataSet:
    """A fixed subset of another data set: numbers of training and test samples, 0 for all.

    `pool` replaces squares of so many pixels a side by their mean, which makes images smaller.
    """
    whole = load(of)
    train, test = _rows(len(whole.train), limit, "train"), _rows(len(whole.test), test_limit, "test")
    return DataSet(
        name=f"{whole.name} ({len(train):,} of {len(whole.train):,} samples)",
        train=_pooled(Samples(whole.train.x[train], whole.train.y[train]), pool),
        test=_pooled(Samples(whole.test.x[test], whole.test.y[test]), pool),
        classes=whole.classes,
        writers_train=None if whole.writers_train is None else whole.writers_train[train],
        writers_test=None if whole.writers_test is None else whole.writers_test[test],
        class_names=whole.class_names,
        mean=whole.mean,
        std=whole.std,
    )


def _pooled(samples: Samples, side: int) -> Samples:
    """Images (samples, height, width, ...) with squares of pixels replaced by their mean, rounded."""
    if side == 1:
        return samples
    images = samples.x
    if not isinstance(images, Tensor):
        raise InputError("only images have pixels to pool; leave pool out")
    chunks = []
    for chunk in torch.split(images, 5_000):
        count, height, width, *channels = chunk.shape
        squares = chunk.reshape(count, height // side, side, width // side, side, *channels)
        chunks.append(squares.float().mean((2, 4)).round().to(images.dtype))
    return Samples(torch.cat(chunks), samples.y)


def _rows(size: int, limit: int, name: str) -> Tensor:
    """A fixed random subset of rows, in order."""
    if not 0 < limit < size:
        return from_numpy(np.arange(size))
    return from_numpy(np.sort(generator(0, f"part of the {name} samples").permutation(size)[:limit]))
