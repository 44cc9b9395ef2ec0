"""Checks of arrays that all sources share, each with its name in the message."""

from collections.abc import Sized
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eunoe.errors import InputError

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Labels = NDArray[np.int64]

# Types that torch computes with; uint16 and other unsigned types have hardly any operations.
_INPUT_TYPES = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}


def input_array(value: ArrayLike | Tensor, what: str, dimensions: int = 2) -> Array:
    """Inputs [samples, ...], of two dimensions or more unless fewer will do; `what` names them in errors."""
    x = plain_array(value, what)
    if x.dtype.kind in "USO":
        raise InputError(f"{what} holds {_held(x)}; inputs must be numbers")
    if x.dtype.name not in _INPUT_TYPES:
        raise InputError(f"{what} has type {x.dtype}; it must be one of {', '.join(sorted(_INPUT_TYPES))}")
    if x.ndim < dimensions or x.size == 0:
        raise InputError(f"{what} has shape {list(x.shape)}; it must be [samples, ...] and not empty")
    if x.dtype == np.uint8 and x.ndim == 4 and x.shape[-1] > 4 and x.shape[1] <= 4:
        raise InputError(
            f"{what} has shape {list(x.shape)}; images must have their channels last, [n, H, W, C]"
        )
    # The minimum and maximum of an array with a NaN are NaN.
    if x.dtype.kind == "f" and not np.isfinite([x.min(), x.max()]).all():
        raise InputError(f"{what} holds values that are not finite (NaN or infinity); fill or drop them")
    return x


def label_array(value: ArrayLike | Tensor, what: str) -> Labels:
    """Labels [samples] as int64."""
    y = plain_array(value, what)
    if y.dtype.kind in "USO":
        raise InputError(f"{what} holds {_held(y)}; labels must be integers 0..C-1, one per sample")
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise InputError(f"{what} is {y.dtype} {list(y.shape)}; labels must be one integer per sample")
    return y.astype(np.int64, copy=False)


def id_array(value: ArrayLike | Tensor, what: str, samples: int) -> Array:
    """Client ids [samples], integers or strings."""
    ids = plain_array(value, what)
    if ids.shape != (samples,) or ids.dtype.kind not in "iuUS":
        raise InputError(
            f"{what} is {ids.dtype} {list(ids.shape)}; it must be one integer or string "
            f"for each of the {samples} samples"
        )
    return ids


def one_label_each(x: Sized, y: Sized, inputs: str, labels: str) -> None:
    """Refuse inputs and labels of unequal length."""
    if len(x) != len(y):
        raise InputError(f"{inputs} has {len(x)} samples and {labels} {len(y)}; there must be one label each")


def plain_array(value: Any, what: str) -> Array:
    """Convert an array, a tensor or nested lists to an array."""
    try:
        if isinstance(value, Tensor):
            return value.detach().cpu().numpy()
        array = np.asarray(value)
    except (ValueError, TypeError):
        # Lists of unequal lengths, or a type that NumPy lacks, such as bfloat16.
        unequal = isinstance(value, list | tuple)
        held = "lists of unequal lengths" if unequal else f"a {type(value).__name__} that NumPy cannot hold"
        raise InputError(f"{what} is made of {held}; all samples must have one type and shape") from None
    if array.dtype == object and array.ndim == 0:
        raise InputError(f"{what} is a {type(value).__name__}; it must be an array, a tensor or nested lists")
    return array


def _held(array: Array) -> str:
    return "Python objects" if array.dtype == object else "text"


def as_tensor(array: Array) -> Tensor:
    """A tensor on the same memory; torch supports neither foreign byte orders nor read-only arrays."""
    if not array.dtype.isnative or not array.flags.writeable or any(step < 0 for step in array.strides):
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(array)
