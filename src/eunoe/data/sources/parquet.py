"""Parquet files as the Hugging Face hub keeps them: columns of inputs, labels and client ids."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eunoe.data.checks import Array, Labels
from eunoe.data.sources.images import ImageDecoder
from eunoe.errors import InputError, nearest

_ROWS_AT_ONCE = 1000


class Columns(NamedTuple):
    """Which column holds what."""

    image: str
    label: str
    client: str | None


class Rows(NamedTuple):
    """The contents of the rows of one or more files."""

    x: Array
    y: Labels
    clients: Array | None
    class_names: tuple[str, ...] | None


def count_rows(files: Sequence[Path]) -> int:
    """The number of rows in all files together."""
    from pyarrow.parquet import read_metadata

    return sum(read_metadata(file).num_rows for file in files)


def read_rows(files: Sequence[Path], columns: Columns, decoder: ImageDecoder) -> Rows:
    """All rows of the files in order."""
    from pyarrow.parquet import ParquetFile

    count = count_rows(files)
    if count == 0:
        more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
        raise InputError(f"{files[0].name}{more}: no rows; at least one is needed")
    x: Array | None = None
    labels: list[Labels] = []
    clients: list[Any] = []
    class_names = None
    row = 0
    for file in files:
        with ParquetFile(file) as table:
            _check(table.schema_arrow, columns, file.name)
            class_names = _class_names(table.schema_arrow, columns.label)
            for batch in table.iter_batches(_ROWS_AT_ONCE, columns=[name for name in columns if name]):
                for name in batch.schema.names:
                    if batch.column(name).null_count:
                        raise InputError(
                            f"{file.name}: column {name!r} has empty cells; every row needs a value"
                        )
                where = f"{file.name}: column {columns.image!r}, row"
                inputs = _inputs(batch.column(columns.image), decoder, where, row)
                if x is None:
                    x = np.empty((count, *inputs.shape[1:]), inputs.dtype)
                if inputs.shape[1:] != x.shape[1:]:
                    before, now = list(x.shape[1:]), list(inputs.shape[1:])
                    raise InputError(f"{where}s change their shape from {before} to {now}; all must have one")
                x[row : row + len(inputs)] = inputs
                labels.append(batch.column(columns.label).to_numpy(zero_copy_only=False).astype(np.int64))
                if columns.client:
                    clients.append(np.array(batch.column(columns.client).to_pylist()))
                row += len(inputs)
    assert x is not None
    return Rows(x, np.concatenate(labels), np.concatenate(clients) if clients else None, class_names)


def _check(schema: Any, columns: Columns, file: str) -> None:
    from pyarrow import types

    for name in columns:
        if name and name not in schema.names:
            raise InputError(f"{file} has no column {name!r}; {nearest(name, schema.names)}")
    label = schema.field(columns.label).type
    if not types.is_integer(label):
        raise InputError(f"{file}: column {columns.label!r} is {label}; labels must be integers")
    if columns.client:
        client = schema.field(columns.client).type
        if not (types.is_integer(client) or types.is_string(client) or types.is_large_string(client)):
            raise InputError(
                f"{file}: column {columns.client!r} is {client}; client ids must be integers or strings"
            )


def _class_names(schema: Any, label: str) -> tuple[str, ...] | None:
    """The names that the `datasets` library keeps in a file's metadata, if it does."""
    try:
        found: Any = json.loads((schema.metadata or {}).get(b"huggingface", b"null"))
    except ValueError:
        return None
    for key in ("info", "features", label, "names"):
        found = found.get(key) if isinstance(found, dict) else None
    return tuple(str(name) for name in found) if isinstance(found, list) else None


def _inputs(column: Any, decoder: ImageDecoder, where: str, row: int) -> Array:
    """A batch of images (encoded bytes, or a struct with them) or of equally long lists of numbers."""
    from pyarrow import compute, types

    if types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0:
        column = column.field("bytes")
        if column.null_count:
            raise InputError(f"{where}s have no bytes; images given only by a path cannot be read")
    if types.is_binary(column.type) or types.is_large_binary(column.type):
        encoded = column.to_pylist()
        return np.stack(
            [decoder.decode(io.BytesIO(data), f"{where} {row + i}") for i, data in enumerate(encoded)]
        )
    shape = [len(column)]
    while types.is_nested(column.type) and not types.is_struct(column.type):
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()
        if len(lengths) != 1:
            raise InputError(
                f"{where}s {row} to {row + shape[0] - 1} have lists of unequal length; one is needed"
            )
        shape.append(lengths[0])
        column = column.flatten()
    numeric = types.is_integer(column.type) or types.is_floating(column.type)
    if not numeric or column.null_count or len(shape) == 1:
        raise InputError(f"{where}s hold {column.type}; images or lists of numbers are needed")
    return np.asarray(column.to_numpy(zero_copy_only=False)).reshape(shape)
