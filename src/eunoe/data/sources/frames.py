"""Files and DataFrames of rows: reading them, and their labels, clients and test rows."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from eunoe.core.tasks import TaskName
from eunoe.data.checks import Array
from eunoe.data.split import fixed_test_rows
from eunoe.errors import InputError, first_line, nearest

Percent = Annotated[int, Field(ge=1, lt=100)]
# An empty cell in files of the UCI repository, besides those that pyarrow knows (NA, NaN, null, ...).
_EMPTY = "?"
_HELD_OUT = 20
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class LabeledRows(NamedTuple):
    """Rows with their labels, the ids of their clients if known, and a mask of the test part."""

    frame: Any
    # One class per row or, for multilabel and regression, [n, columns] with `class_names` as column names.
    y: Array
    class_names: tuple[str, ...]
    clients: Array | None
    test: NDArray[np.bool_]


def read_frame(path: Path, texts: Sequence[str] = ()) -> Any:
    """Read a CSV file (also .gz, .xz, .bz2) or Parquet file as an Arrow table.

    Columns named in `texts` are read as text, in which only cells without characters are empty.
    """
    from pyarrow import ArrowException, csv, parquet, string

    path = Path(path).expanduser()
    try:
        if path.suffix == ".parquet":
            return parquet.read_table(path, page_checksum_verification=True)
        convert = csv.ConvertOptions(
            strings_can_be_null=not texts, column_types=dict.fromkeys(texts, string())
        )
        convert.null_values = [*convert.null_values, _EMPTY]
        parse = csv.ParseOptions(newlines_in_values=True)
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            return csv.read_csv(file, parse_options=parse, convert_options=convert)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (ArrowException, OSError, EOFError, lzma.LZMAError, zlib.error, MemoryError) as error:
        raise InputError(f"{path} is not a readable CSV or Parquet file: {first_line(error)}") from None


def as_frame(rows: Any, what: str) -> Any:
    """Convert a DataFrame, an Arrow table or a mapping of columns to an Arrow table."""
    from pyarrow import ArrowException, table

    try:
        return table(rows)
    except (ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{what} is not a table with columns of equal length: {first_line(error)}") from None


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
    for name in filter(None, (*columns, client, part)):
        get_column(frame, name, where)
    if part is not None and held_out is not None:
        raise InputError(f"{where}: the column {part!r} defines the test part: omit held_out")
    if part is not None:
        values = np.array([str(value) for value in frame.column(part).to_pylist()])
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


def read_values(frame: Any, where: str, name: str) -> list[Any]:
    """Return the values of a column; an empty cell is an error."""
    values: list[Any] = get_column(frame, name, where).to_pylist()
    for row, value in enumerate(values, start=1):
        if value is None or value == "":
            raise InputError(f"{where}: column {name!r} is empty in row {row}; every row needs a value")
    return values


def as_text(value: Any) -> str:
    """Return a category or label as text, the same whether a file has it as 3 or as 3.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read_targets(
    frame: Any, where: str, names: tuple[str, ...], task: TaskName | None
) -> tuple[Array, tuple[str, ...]]:
    """Return the classes of one column, or the numbers of one or several, and what they are called."""
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
