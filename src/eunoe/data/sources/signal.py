"""Windows of signals, such as a sensor's: [time, channels], standardized by channel."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from eunoe.data.samples import DataSet
from eunoe.data.sources.npz import npz
from eunoe.errors import InputError


def signal(path: Path, *, classes: int | None = None) -> DataSet:
    """A .npz file whose inputs are real windows [n, time, channels], standardized by channel.

    The mean and std are those of the training part.
    """
    return standardized(npz(path, classes=classes))


def standardized(data: DataSet) -> DataSet:
    """The data with mean and std of each channel of the training part."""
    x = data.train.tensor
    if x.ndim != 3 or not x.is_floating_point():
        raise InputError(
            f"{data.name}: inputs are {str(x.dtype).removeprefix('torch.')} {list(x.shape[1:])}; "
            "signals must be real windows [time, channels], all of one length"
        )
    values = x.numpy().reshape(-1, x.shape[-1])
    mean, std = values.mean(0, dtype=np.float64), values.std(0, dtype=np.float64)
    std[std == 0] = 1.0  # a channel that never varies must not become a division by zero
    return replace(data, mean=tuple(mean.tolist()), std=tuple(std.tolist()))
