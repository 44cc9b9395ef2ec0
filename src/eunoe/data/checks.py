"""Checks and conversions of arrays that all sources share; `what` names the array in error messages."""

from collections.abc import Mapping, Sequence, Sized
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eunoe.core.fields import Fields, Ragged, Stored
from eunoe.errors import InputError

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
# Inputs as a user may pass them.
InputLike: TypeAlias = ArrayLike | Tensor | Ragged | Fields | Mapping[str, Any] | tuple[Any, ...]

_ARRAYS = (np.ndarray, Tensor, Ragged)
# Types that torch computes with; uint16 and other unsigned types support hardly any operation.
_INPUT_TYPES = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}


def check_inputs(value: InputLike, what: str) -> Stored:
    """Return inputs [samples, ...] as tensors, which share the memory of arrays."""
    if isinstance(value, Mapping):
        value = Fields(list(value.values()), [str(name) for name in value])
    elif isinstance(value, tuple) and value and all(isinstance(field, _ARRAYS) for field in value):
        value = Fields(value)
    if isinstance(value, Fields):
        return _check_fields(value, what)
    return _check_ragged(value, what) if isinstance(value, Ragged) else check_numbers(value, what)


def as_ragged(samples: Sequence[Any], what: str) -> Ragged:
    """Concatenate samples that differ in their first dimension only."""
    arrays = [np.asarray(sample) for sample in samples]
    dtype = np.result_type(*{array.dtype for array in arrays if array.size} or {np.dtype(np.int64)})
    inner = {array.shape[1:] for array in arrays if array.ndim and array.size}
    if len(inner) > 1 or any(array.ndim == 0 for array in arrays):
        raise InputError(f"{what} has samples of different shapes; only the first dimension may differ")
    shape = inner.pop() if inner else ()
    parts = [torch.from_numpy(array.astype(dtype).reshape(-1, *shape)) for array in arrays]
    return _check_ragged(Ragged.of(parts), what)


def check_labels(y: Array, what: str) -> Integers:
    """Return class labels [samples] as int64."""
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise InputError(f"{what} is {_type(y)} {list(y.shape)}; labels must be one integer per sample")
    return y.astype(np.int64, copy=False)


def check_ids(value: ArrayLike | Tensor, what: str, samples: int) -> Array:
    """Return client ids [samples], integers or strings."""
    ids = as_array(value, what)
    if ids.shape != (samples,) or ids.dtype.kind not in "iuUS":
        raise InputError(f"{what} is {ids.dtype} {list(ids.shape)}, not {samples} integers or strings")
    return ids


def check_lengths(x: Sized, y: Sized, inputs: str, labels: str) -> None:
    """Raise InputError if inputs and labels differ in length."""
    if len(x) != len(y):
        raise InputError(f"{inputs} has {len(x)} samples and {labels} {len(y)}; they must be equal in length")


def as_array(value: Any, what: str) -> Array:
    """Convert an array, a tensor or nested lists to an array."""
    try:
        if isinstance(value, Tensor):
            return value.detach().cpu().numpy()
        array = np.asarray(value)
    except (ValueError, TypeError):
        # Lists of unequal lengths, or a type that NumPy lacks, such as bfloat16.
        unequal = isinstance(value, list | tuple)
        content = "lists of unequal lengths" if unequal else f"a {type(value).__name__} that NumPy lacks"
        raise InputError(f"{what} consists of {content}; samples must have the same type and shape") from None
    if array.dtype == object and array.ndim == 0:
        raise InputError(f"{what} is a {type(value).__name__}; it must be an array, a tensor or nested lists")
    return array


def as_tensor(array: Array) -> Tensor:
    """Convert to a tensor without a copy, except for layouts that torch does not support."""
    if not array.dtype.isnative or not array.flags.writeable or any(step < 0 for step in array.strides):
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(array)


def check_numbers(value: ArrayLike | Tensor, what: str, dimensions: int = 2) -> Tensor:
    """Return numbers [samples, ...] as a tensor."""
    x = as_array(value, what)
    if x.dtype.name not in _INPUT_TYPES:
        raise InputError(f"{what} is {_type(x)}; inputs must be numbers ({', '.join(sorted(_INPUT_TYPES))})")
    if x.ndim < dimensions or x.size == 0:
        raise InputError(f"{what} has shape {list(x.shape)}; it must be [samples, ...] and not empty")
    if x.dtype == np.uint8 and x.ndim == 4 and x.shape[-1] > 4 and x.shape[1] <= 4:
        raise InputError(f"{what} has shape {list(x.shape)}; images must be channels-last, [n, H, W, C]")
    # The minimum and maximum of an array with a NaN are NaN.
    if x.dtype.kind == "f" and not np.isfinite([x.min(), x.max()]).all():
        raise InputError(f"{what} contains values that are not finite (NaN or infinity); fill or drop them")
    return as_tensor(x)


def _check_fields(fields: Fields, what: str) -> Fields:
    if not fields.values:
        raise InputError(f"{what} has no fields; at least one is required")
    values = [
        _check_field(value, f"{what}[{label!r}]" if fields.names else f"{what}[{label}]")
        for value, label in zip(fields.values, fields.labels, strict=True)
    ]
    if len({len(value) for value in values}) > 1:
        lengths = (f"{label} has {len(v)}" for label, v in zip(fields.labels, values, strict=True))
        raise InputError(f"{what}: {', '.join(lengths)} samples; all fields must have the same number")
    return Fields(values, fields.names)


def _check_field(value: Any, what: str) -> Tensor | Ragged:
    if isinstance(value, Ragged):
        return _check_ragged(value, what)
    if isinstance(value, list):
        # Nested lists have no shape before they are converted.
        sizes = {(len(item),) if isinstance(item, list | tuple) else np.shape(item)[:1] for item in value}
        if len(sizes) > 1:
            return as_ragged(value, what)
    return check_numbers(value, what, dimensions=1)


def _check_ragged(value: Ragged, what: str) -> Ragged:
    offsets, count = value.offsets, len(value.values)
    valid = offsets.ndim == 1 and len(offsets) > 1 and int(offsets[0]) == 0 and int(offsets[-1]) == count
    if not valid or bool((offsets.diff() < 0).any()):
        raise InputError(f"{what}: offsets must rise from 0 to {count} and be one more than samples")
    if not count:
        raise InputError(f"{what} has only samples of length 0; at least one must have a value")
    return Ragged(check_numbers(value.values, what, dimensions=1), offsets, value.padding)


def _type(array: Array) -> str:
    return {"U": "text", "S": "text", "O": "Python objects"}.get(array.dtype.kind, str(array.dtype))
