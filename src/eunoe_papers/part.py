"""Subsets and downsampled versions of data sets, for runs at small and medium scale."""

import numpy as np
import torch
from torch import Tensor, from_numpy

from eunoe.core.rng import generator
from eunoe.data.loading import load
from eunoe.data.samples import DataSet, Samples
from eunoe.errors import InputError


def part(*, of: str, limit: int = 0, test_limit: int = 0, pool: int = 1) -> DataSet:
    """Return a fixed subset of another data set: numbers of training and test samples, 0 for all.

    `pool` replaces squares of so many pixels a side by their mean, which makes images smaller.
    """
    whole = load(of)
    train = _select_rows(len(whole.train), limit, "train")
    test = _select_rows(len(whole.test), test_limit, "test")
    return DataSet(
        name=f"{whole.name} ({len(train):,} of {len(whole.train):,} samples)",
        train=_pool(Samples(whole.train.x[train], whole.train.y[train]), pool),
        test=_pool(Samples(whole.test.x[test], whole.test.y[test]), pool),
        classes=whole.classes,
        writers_train=None if whole.writers_train is None else whole.writers_train[train],
        writers_test=None if whole.writers_test is None else whole.writers_test[test],
        class_names=whole.class_names,
        mean=whole.mean,
        std=whole.std,
    )


def _pool(samples: Samples, side: int) -> Samples:
    """Replace squares of pixels of images (samples, height, width, ...) by their rounded mean."""
    if side == 1:
        return samples
    images = samples.x
    if not isinstance(images, Tensor):
        raise InputError("pool needs images: remove it from the config")
    chunks = []
    for chunk in torch.split(images, 5_000):
        count, height, width, *channels = chunk.shape
        squares = chunk.reshape(count, height // side, side, width // side, side, *channels)
        chunks.append(squares.float().mean((2, 4)).round().to(images.dtype))
    return Samples(torch.cat(chunks), samples.y)


def _select_rows(size: int, limit: int, name: str) -> Tensor:
    """Return a fixed random subset of rows, in order."""
    if not 0 < limit < size:
        return from_numpy(np.arange(size))
    return from_numpy(np.sort(generator(0, f"part of the {name} samples").permutation(size)[:limit]))
