"""Parquet files of the Hugging Face hub: columns of inputs, labels and client ids."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eunoe.data.checks import Array, Integers
from eunoe.data.sources.images import ImageDecoder
from eunoe.errors import InputError, nearest

_BATCH_ROWS = 1000


class ColumnValues(NamedTuple):
    """The values of all rows, and the class names if a file has them."""

    x: Array
    y: Integers
    clients: Array | None
    class_names: tuple[str, ...] | None


def count_rows(files: Sequence[Path]) -> int:
    """Return the number of rows of all files together."""
    from pyarrow.parquet import read_metadata

    return sum(read_metadata(file).num_rows for file in files)


def read_columns(
    files: Sequence[Path], image: str, label: str, client: str | None, decoder: ImageDecoder
) -> ColumnValues:
    """Read all rows of the files in order."""
    from pyarrow.parquet import ParquetFile

    count = count_rows(files)
    if count == 0:
        more = f" and {len(files) - 1} more files" if len(files) > 1 else ""
        raise InputError(f"{files[0].name}{more}: no rows; at least one is needed")
    x: Array | None = None
    labels: list[Integers] = []
    clients: list[Any] = []
    class_names = None
    row = 0
    for file in files:
        with ParquetFile(file) as table:
            _check_schema(table.schema_arrow, image, label, client, file.name)
            class_names = _read_class_names(table.schema_arrow, label)
            for batch in table.iter_batches(
                _BATCH_ROWS, columns=[name for name in (image, label, client) if name]
            ):
                for name in batch.schema.names:
                    if batch.column(name).null_count:
                        raise InputError(
                            f"{file.name}: column {name!r} has empty cells; every row needs a value"
                        )
                where = f"{file.name}: column {image!r}, row"
                inputs = _decode_inputs(batch.column(image), decoder, where, row)
                if x is None:
                    x = np.empty((count, *inputs.shape[1:]), inputs.dtype)
                if inputs.shape[1:] != x.shape[1:]:
                    before, now = list(x.shape[1:]), list(inputs.shape[1:])
                    raise InputError(f"{where}s change shape from {before} to {now}; all must be equal")
                x[row : row + len(inputs)] = inputs
                labels.append(batch.column(label).to_numpy(zero_copy_only=False).astype(np.int64))
                if client:
                    clients.append(np.array(batch.column(client).to_pylist()))
                row += len(inputs)
    assert x is not None
    return ColumnValues(x, np.concatenate(labels), np.concatenate(clients) if clients else None, class_names)


def _check_schema(schema: Any, image: str, label: str, client: str | None, file: str) -> None:
    from pyarrow import types

    for name in (image, label, client):
        if name and name not in schema.names:
            raise InputError(f"{file} has no column {name!r}; {nearest(name, schema.names)}")
    kind = schema.field(label).type
    if not types.is_integer(kind):
        raise InputError(f"{file}: column {label!r} is {kind}; labels must be integers")
    kind = schema.field(client).type if client else kind
    if not (types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)):
        raise InputError(f"{file}: column {client!r} is {kind}; client ids must be integers or strings")


def _read_class_names(schema: Any, label: str) -> tuple[str, ...] | None:
    """Return the class names that the `datasets` library writes into the metadata, if any."""
    try:
        value: Any = json.loads((schema.metadata or {}).get(b"huggingface", b"null"))
    except ValueError:
        return None
    for key in ("info", "features", label, "names"):
        value = value.get(key) if isinstance(value, dict) else None
    return tuple(str(name) for name in value) if isinstance(value, list) else None


def _decode_inputs(column: Any, decoder: ImageDecoder, where: str, row: int) -> Array:
    """Decode a batch of images (bytes, or a struct with bytes) or of lists of numbers of equal length."""
    from pyarrow import compute, types

    if types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0:
        column = column.field("bytes")
        if column.null_count:
            raise InputError(f"{where}s have no bytes; images stored as a path only cannot be read")
    if types.is_binary(column.type) or types.is_large_binary(column.type):
        encoded = column.to_pylist()
        return np.stack(
            [decoder.decode(io.BytesIO(data), f"{where} {row + i}") for i, data in enumerate(encoded)]
        )
    shape = [len(column)]
    while types.is_nested(column.type) and not types.is_struct(column.type):
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()
        if len(lengths) != 1:
            raise InputError(f"{where}s {row} to {row + shape[0] - 1} have lists of unequal length")
        shape.append(lengths[0])
        column = column.flatten()
    numeric = types.is_integer(column.type) or types.is_floating(column.type)
    if not numeric or column.null_count or len(shape) == 1:
        raise InputError(f"{where}s are {column.type}; images or lists of numbers are needed")
    return np.asarray(column.to_numpy(zero_copy_only=False)).reshape(shape)
