"""Files and DataFrames of rows: reading them, and their labels, clients and test rows."""

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from eunoe.core.tasks import TaskName
from eunoe.data.arrays import from_rows
from eunoe.data.checks import Array
from eunoe.data.samples import DataSet
from eunoe.data.split import fixed_test_rows
from eunoe.errors import InputError, first_line, join_names, nearest
from eunoe.system.files import check_regular, open_regular
from eunoe.system.machine import check_expansion

Percent = Annotated[int, Field(ge=1, lt=100)]
# An empty cell in files of the UCI repository, besides those that pyarrow knows (NA, NaN, null, ...).
_EMPTY = "?"
_HELD_OUT = 20
_AS_TEXT = ("timestamp[ns", "time64[ns", "duration[ns", "string_view")
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class LabeledRows(NamedTuple):
    """Rows with their labels, the ids of their clients if known, and a mask of the test part."""

    frame: Any
    # One class per row or, for multilabel and regression, [n, columns] with `class_names` as column names.
    y: Array
    class_names: tuple[str, ...]
    clients: Array | None
    test: NDArray[np.bool_]

    def training(self, values: Sequence[Any]) -> list[Any]:
        """Return the values of training rows."""
        return [value for value, test in zip(values, self.test, strict=True) if not test]

    def dataset(self, x: Any, name: str, **options: Any) -> DataSet:
        """Build the data set of these rows with inputs `x`; options as in `from_arrays`."""
        names = self.class_names
        options |= {"name": name, "classes": len(names), "class_names": names}
        return from_rows(x, self.y, self.test, self.clients, **options)


def read_frame(path: Path, texts: Sequence[str] = ()) -> Any:
    """Read a CSV (also .gz, .xz, .bz2) or Parquet file as an Arrow table; columns in `texts` are text."""
    from pyarrow import ArrowException, BufferOutputStream, BufferReader, csv, parquet, string

    path = Path(path).expanduser()
    try:
        if path.suffix == ".parquet":
            check_regular(path)
            about = parquet.read_metadata(path)
            # A repeated value takes no space in the file.
            check_expansion(8 * about.num_rows * about.num_columns, path.stat().st_size, str(path))
            return _check_frame(parquet.read_table(path, page_checksum_verification=True), str(path))
        cells = csv.ConvertOptions(strings_can_be_null=not texts, column_types=dict.fromkeys(texts, string()))
        cells.null_values = [*cells.null_values, _EMPTY]
        parse = csv.ParseOptions(newlines_in_values=True)
        with open_regular(path) as stored, _OPENERS.get(path.suffix, nullcontext)(stored) as file:
            # Arrow's threads may outlive Python's file object, and abort the process when it ends.
            content, size = BufferOutputStream(), os.fstat(stored.fileno()).st_size
            while block := file.read(1 << 20):
                content.write(block)
                check_expansion(content.tell(), size, str(path))
        frame = csv.read_csv(BufferReader(content.getvalue()), parse_options=parse, convert_options=cells)
        return _check_frame(frame, str(path))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (ArrowException, OSError, EOFError, ValueError, lzma.LZMAError, zlib.error, MemoryError) as error:
        raise InputError(f"{path} is not a readable CSV or Parquet file: {first_line(error)}") from None


def as_frame(rows: Any, what: str) -> Any:
    """Convert a DataFrame, an Arrow table or a mapping of columns to an Arrow table."""
    from pyarrow import ArrowException, table

    try:
        return _check_frame(table(rows), what)
    except (ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{what} is not a table with columns of equal length: {first_line(error)}") from None


def raw_frame(rows: Any, names: Sequence[str], texts: Sequence[str], where: str) -> Any:
    """Convert rows to predict to an Arrow table; columns in `texts` of a file are read as text.

    Rows are a path, a DataFrame, an Arrow table, a mapping of columns, one or several mappings of cells, or
    lists of cells in the order of `names`. A column of mixed types becomes text.
    """
    if isinstance(rows, str | Path):
        return read_frame(Path(rows), texts)
    if isinstance(rows, Mapping) and all(np.ndim(cell) == 0 for cell in rows.values()):
        rows = [rows]
    if isinstance(rows, list | tuple | np.ndarray):
        if not len(rows):
            raise InputError(f"{where} is empty: pass at least one row")
        if all(isinstance(row, Mapping) for row in rows):
            keys = dict.fromkeys(key for row in rows for key in row)
            rows = {key: [row.get(key) for row in rows] for key in keys}
        elif all(isinstance(row, Sequence | np.ndarray) and len(row) == len(names) for row in rows):
            rows = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        else:
            order = join_names(names, most=20)
            raise InputError(f"{where} must have {len(names)} cells in each row, in this order: {order}")
    try:
        return as_frame(rows, where)
    except InputError:
        if not hasattr(rows, "keys"):
            raise
        cells = {str(name): [None if v is None else as_text(v) for v in rows[name]] for name in rows}
        return as_frame(cells, where)


def as_texts(rows: Any, column: str, where: str) -> list[str]:
    """Return texts as a list: those of a sequence, or of a column of a file, DataFrame or mappings."""
    first = rows[0] if isinstance(rows, list | tuple) and rows else None
    if isinstance(rows, str | Path | Mapping) or hasattr(rows, "columns") or isinstance(first, Mapping):
        values = column_values(raw_frame(rows, [column], [column], where), column, where)
    else:
        values = rows.to_pylist() if hasattr(rows, "to_pylist") else list(rows)
    if not values:
        raise InputError(f"{where} is empty: pass at least one text")
    for row, value in enumerate(values, start=1):
        if not isinstance(value, str):
            raise InputError(f"{where}: row {row} is {value!r}, not text")
    return values


@cache
def _empty_cells() -> frozenset[str]:
    from pyarrow import csv

    return frozenset([*csv.ConvertOptions().null_values, _EMPTY])


def is_empty(text: str) -> bool:
    """Return whether a cell counts as missing in a CSV file, such as an empty string or NA."""
    return text.strip() in _empty_cells()


def _check_frame(frame: Any, where: str) -> Any:
    """Return a table whose columns have distinct names and valid values that can be filtered."""
    from pyarrow import array, string

    names = frame.column_names
    if not len(frame):
        raise InputError(f"{where} has no rows: at least one is needed")
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise InputError(f"{where} has the column {twice!r} twice; rename one of them")
    frame.validate(full=True)
    for place, name in enumerate(names):
        # Python has no type for nanoseconds, and Arrow does not filter views.
        if str(frame.column(place).type).startswith(_AS_TEXT):
            frame = frame.set_column(place, name, frame.column(place).cast(string()))
    frame.slice(0, 1).filter(array([True]))
    return frame


def label_rows(
    frame: Any,
    where: str,
    label: str | Sequence[str],
    client: str | None,
    part: str | None,
    held_out: int | None,
    task: TaskName | None = None,
) -> LabeledRows:
    """Read labels, clients and the test part from the columns of a table.

    One label column is classification, unless `task` is regression or it has real numbers; several are
    multilabel (0 and 1) or, if that is the task, regression. The column `part` says train or test; rows with
    another value are dropped. Without it, `held_out` percent of each client's rows (of each class's, without
    clients) are the test part.
    """
    columns = (label,) if isinstance(label, str) else tuple(label)
    if part is not None and held_out is not None:
        raise InputError(f"{where}: the column {part!r} defines the test part: omit held_out")
    if part is not None:
        values = np.array([str(value) for value in column_values(frame, part, where)])
        used = np.isin(values, ("train", "test"))
        frame, test = frame.filter(used), values[used] == "test"
    y, class_names = _read_targets(frame, where, columns, task)
    clients = None
    if client is not None:
        clients = np.array([as_text(value) for value in read_values(frame, where, client)])
    if part is None:
        classes = np.zeros(len(y), np.int64) if y.ndim > 1 else y
        groups = classes if clients is None else clients
        test = fixed_test_rows(groups, _HELD_OUT if held_out is None else held_out)
    for name, rows in (("training", ~test), ("test", test)):
        if not rows.any():
            raise InputError(f"{where}: the {name} part has no rows")
    return LabeledRows(frame, y, class_names, clients, test)


def get_column(frame: Any, name: str, where: str) -> Any:
    """Return a column by its name."""
    if name not in frame.column_names:
        raise InputError(f"{where} has no column {name!r}; {nearest(name, frame.column_names)}")
    return frame.column(name)


def column_values(frame: Any, name: str, where: str) -> list[Any]:
    """Return the values of a column, None where it is empty; a column of lists or structs is an error."""
    from pyarrow import BaseExtensionType, types

    column = get_column(frame, name, where)
    if types.is_nested(column.type) or isinstance(column.type, BaseExtensionType):
        raise InputError(f"{where}: column {name!r} is {column.type}; only numbers and text are supported")
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError) as error:
        raise InputError(f"{where}: column {name!r} cannot be read ({first_line(error)})") from None


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def read_values(frame: Any, where: str, name: str) -> list[Any]:
    """Return the values of a column; an empty cell is an error."""
    values = column_values(frame, name, where)
    for row, value in enumerate(values, start=1):
        if value is None or value == "":
            raise InputError(
                f"{where}: column {name!r} is empty in row {row} ({_EMPTY}, NA and null count as empty); "
                "every row needs a value"
            )
    return values


def as_text(value: Any) -> str:
    """Return a category or label as text, the same whether a file has it as 3 or as 3.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read_targets(
    frame: Any, where: str, names: tuple[str, ...], task: TaskName | None
) -> tuple[Array, tuple[str, ...]]:
    """Return the classes of one column, or the numbers of one or several, and what they are called."""
    if task == "language_model":
        return np.zeros(len(frame), np.int64), ()
    columns = [read_values(frame, where, name) for name in names]
    real = any(isinstance(value, float) and not value.is_integer() for value in columns[0])
    if len(names) == 1 and (task == "classification" or (task is None and not real)):
        if real:
            raise InputError(f"{where}: column {names[0]!r} has real numbers; labels are integers or text")
        if len(distinct := sorted(set(columns[0]))) < 2:
            raise InputError(f"{where}: column {names[0]!r} has only one label; at least two are required")
        numbers = {value: number for number, value in enumerate(distinct)}
        y = np.array([numbers[value] for value in columns[0]], np.int64)
        return y, tuple(as_text(value) for value in distinct)
    for name, values in zip(names, columns, strict=True):
        if any(not isinstance(value, int | float) for value in values):
            raise InputError(f"{where}: column {name!r} has values other than numbers to predict")
    return np.array(columns, np.float64).T, names
