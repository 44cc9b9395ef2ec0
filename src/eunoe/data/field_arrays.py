"""Inputs of several fields or of varying length: checked, and as plain arrays for files."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from eunoe.core.fields import Fields, Ragged, Stored
from eunoe.data.checks import Array, as_tensor, input_array
from eunoe.errors import InputError

# What a user may pass as inputs.
Given: TypeAlias = ArrayLike | Tensor | Ragged | Fields | Mapping[str, Any] | tuple[Any, ...]
Checked: TypeAlias = Array | Ragged | Fields


def input_of(value: Given, what: str) -> Checked:
    """Inputs as an array of numbers or, if they have fields or vary in length, as tensors."""
    if isinstance(value, Mapping):
        value = Fields(list(value.values()), [str(name) for name in value])
    elif (
        isinstance(value, tuple)
        and value
        and all(isinstance(one, np.ndarray | Tensor | Ragged) for one in value)
    ):
        value = Fields(value)
    if isinstance(value, Fields):
        return _fields(value, what)
    return _ragged(value, what) if isinstance(value, Ragged) else input_array(value, what)


def stored(value: Checked) -> Stored:
    """Checked inputs as tensors."""
    return value if isinstance(value, Ragged | Fields) else as_tensor(value)


def ragged_of(samples: Sequence[Any], what: str) -> Ragged:
    """Samples that differ in their first dimension only, as one field."""
    arrays = [np.asarray(sample) for sample in samples]
    numbers = np.result_type(*{array.dtype for array in arrays if array.size} or {np.dtype(np.int64)})
    inner = {array.shape[1:] for array in arrays if array.ndim and array.size}
    if len(inner) > 1 or any(array.ndim == 0 for array in arrays):
        raise InputError(f"{what} holds samples of unlike shapes; only their first dimensions may differ")
    shape = inner.pop() if inner else ()
    parts = [torch.from_numpy(array.astype(numbers).reshape(-1, *shape)) for array in arrays]
    return _ragged(Ragged.of(parts), what)


def unpacked(arrays: Mapping[str, Any], parts: Sequence[str]) -> dict[str, Any]:
    """The arrays of a file with the fields of each of these parts put together.

    `x.ids` is the field ids of x. `offsets.x.ids` are the offsets of one of varying length, and
    `padding.x.ids` is what it is padded with, if not 0.
    """
    result = {key: value for key, value in arrays.items() if "." not in key}
    for part in parts:
        names = [key.removeprefix(f"{part}.") for key in arrays if key.startswith(f"{part}.")]
        if names and part in arrays:
            raise InputError(
                f"{part} and {part}.{names[0]} are both there; samples are one array or have fields"
            )
        if names:
            fields = [_unpacked(arrays, f"{part}.{name}") for name in names]
            numbered = names == [str(number) for number in range(len(names))]
            result[part] = Fields(fields, None if numbered else names)
        elif part in arrays:
            result[part] = _unpacked(arrays, part)
    return result


def packed(part: str, x: Stored) -> dict[str, Array]:
    """The arrays that `unpacked` puts together again."""
    if isinstance(x, Fields):
        return {
            key: array
            for name, field in zip(x.labels, x.values, strict=True)
            for key, array in packed(f"{part}.{name}", field).items()
        }
    if isinstance(x, Tensor):
        return {part: x.numpy()}
    more = {f"padding.{part}": np.array([x.padding])} if x.padding else {}
    return {part: x.values.numpy(), f"offsets.{part}": x.offsets.numpy(), **more}


def _unpacked(arrays: Mapping[str, Any], key: str) -> Any:
    if f"offsets.{key}" not in arrays:
        return arrays[key]
    padding = np.asarray(arrays.get(f"padding.{key}", [0])).reshape(-1)[0].item()
    offsets = np.asarray(arrays[f"offsets.{key}"])
    if offsets.dtype.kind not in "iu":
        raise InputError(f"offsets.{key} is {offsets.dtype}; offsets must be integers")
    return Ragged(
        as_tensor(np.asarray(arrays[key])), as_tensor(offsets.astype(np.int64, copy=False)), padding
    )


def _fields(fields: Fields, what: str) -> Fields:
    if not fields.values:
        raise InputError(f"{what} has no field; it must have one or more")
    checked = [
        _field(value, f"{what}[{label!r}]" if fields.names else f"{what}[{label}]")
        for value, label in zip(fields.values, fields.labels, strict=True)
    ]
    lengths = {label: len(value) for label, value in zip(fields.labels, checked, strict=True)}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{label} has {length}" for label, length in lengths.items())
        raise InputError(f"{what}: {found} samples; every field must have one entry for each sample")
    return Fields(checked, fields.names)


def _field(value: Any, what: str) -> Tensor | Ragged:
    if isinstance(value, Ragged):
        return _ragged(value, what)
    if isinstance(value, list) and len({np.shape(one)[:1] for one in _shallow(value)}) > 1:
        return ragged_of(value, what)
    return as_tensor(input_array(value, what, dimensions=1))


def _shallow(value: list[Any]) -> list[Any]:
    """Entries whose shape is known without converting what may be unequal lists."""
    return [np.empty(len(one)) if isinstance(one, list | tuple) else one for one in value]


def _ragged(value: Ragged, what: str) -> Ragged:
    offsets = value.offsets
    whole = offsets.ndim == 1 and len(offsets) > 1 and int(offsets[0]) == 0
    if not whole or int(offsets[-1]) != len(value.values) or bool((offsets.diff() < 0).any()):
        raise InputError(
            f"{what}: offsets must rise from 0 to {len(value.values)}, the number of values; "
            "there is one more than samples"
        )
    if not len(value.values):
        raise InputError(f"{what} holds samples of length 0 only; some must have a value")
    values = as_tensor(input_array(value.values, what, dimensions=1))
    return Ragged(values, offsets, value.padding)
