"""Inputs to predict: raw rows, sentences, images and arrays in the form of the training inputs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eunoe.core.fields import Fields, Ragged, Stored
from eunoe.data.checks import Array, check_inputs
from eunoe.data.samples import DataSet
from eunoe.data.sources.images import ImageDecoder
from eunoe.data.sources.npz import NO_HEADER
from eunoe.data.sources.table import TableEncoder
from eunoe.data.sources.text import TextEncoder
from eunoe.errors import InputError, first_line


def read_inputs(inputs: Any, data: DataSet) -> Stored:
    """Encode inputs as in training; inputs that are already encoded are only checked."""
    like, encoding = data.train.x, data.encoding or {}
    where = str(inputs) if isinstance(inputs, str | Path) else "x"
    if encoding.get("kind") == "table":
        if not _is_encoded(inputs, len(encoding["features"])):
            rows = inputs.tolist() if isinstance(inputs, Tensor) else inputs
            inputs = TableEncoder.from_dict(encoding).encode(rows, where, encoding.get("unknown", "column"))
    elif encoding.get("kind") == "text" and _is_text(inputs, like):
        inputs = TextEncoder.from_dict(encoding).encode(inputs, encoding.get("column", "text"), where)
    elif files := _as_paths(inputs):
        inputs = _read_files(files, like)
    x = check_inputs(inputs, "x")
    return _match_fields(x, like) if isinstance(like, Fields) else _match_shape(x, like, "x")


def _match_fields(x: Stored, like: Fields) -> Fields:
    if not isinstance(x, Fields) or set(x.labels) != set(like.labels):
        raise InputError(f"x must have the fields {', '.join(like.labels)}, as the data that were trained on")
    actual, expected = (dict(zip(f.labels, f.values, strict=True)) for f in (x, like))
    fields = [_match_shape(actual[label], expected[label], f"x[{label!r}]") for label in like.labels]
    return Fields(fields, like.names)


def _match_shape(x: Any, like: Any, what: str) -> Any:
    """Return inputs of one field; InputError if their samples have another shape than those of training."""
    if isinstance(like, Tensor) and (not isinstance(x, Tensor) or x.shape[1:] != like.shape[1:]):
        shape = f"shape {list(x.shape)}" if isinstance(x, Tensor) else "another form"
        expected = ", ".join(["samples", *map(str, like.shape[1:])])
        raise InputError(f"{what} has {shape}; the model takes [{expected}], as in training")
    return x


def _is_encoded(inputs: Any, features: int) -> bool:
    """Return whether rows are encoded; raw rows of as many numbers are the same before and after."""
    try:
        array = np.asarray(inputs if isinstance(inputs, list | tuple | np.ndarray | Tensor) else None)
    except ValueError:
        return False
    return array.dtype.kind in "biuf" and array.ndim == 2 and array.shape[1] == features


def _is_text(inputs: Any, like: Stored) -> bool:
    """Return whether inputs are texts or rows with texts, and not ids."""
    if isinstance(inputs, Tensor | Ragged | Fields):
        return False
    if isinstance(inputs, Mapping):
        return not (isinstance(like, Fields) and set(inputs) == set(like.labels))
    if isinstance(inputs, list | tuple | np.ndarray):
        return len(inputs) == 0 or inputs[0] is None or isinstance(inputs[0], str | Mapping)
    return True


def _as_paths(inputs: Any) -> list[Path]:
    """Return the files that inputs name, those of a folder sorted by name; empty for other inputs."""
    if isinstance(inputs, str | Path):
        path = Path(inputs).expanduser()
        if path.is_dir():
            return sorted(file for file in path.iterdir() if file.is_file() and file.name[0] != ".")
        return [path]
    if isinstance(inputs, list | tuple) and inputs and all(isinstance(item, str | Path) for item in inputs):
        return [Path(item).expanduser() for item in inputs]
    return []


def _read_files(files: list[Path], like: Stored) -> Array:
    """Read one .npy file, or images, which are resized to those of training."""
    for file in files:
        if not file.is_file():
            raise InputError(f"there is no file {file}")
    if files[0].suffix == ".npy":
        try:
            return np.asarray(np.lib.format.open_memmap(files[0], mode="r"))
        except (*NO_HEADER, OSError, EOFError) as error:
            raise InputError(f"{files[0]} is no array that NumPy can read ({first_line(error)})") from None
    if not isinstance(like, Tensor) or like.dtype != torch.uint8 or like.ndim not in (3, 4):
        raise InputError(f"the model does not take images, as {files[0]}: pass an array or a .npy file")
    decoder = ImageDecoder("L" if like.ndim == 3 else "RGB", (like.shape[1], like.shape[2]))
    return np.stack([decoder.decode(file, str(file)) for file in files])
