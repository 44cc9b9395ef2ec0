"""Files and DataFrames of rows: read, labeled, with their clients and their part."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eunoe.core.tasks import TaskName
from eunoe.data.arrays import number_ids
from eunoe.data.checks import Array, Labels
from eunoe.data.sources.hub import held_out_rows
from eunoe.errors import InputError, first_line, nearest

# Besides what pyarrow takes for empty (NA, NaN, null, ...), what the UCI repository writes.
_EMPTY = "?"
_HELD_OUT = 20
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}


class Labeled(NamedTuple):
    """Rows with their labels, their clients' numbers if they have some, and which are the test part."""

    frame: Any
    # Integers of classes, or [n, columns] numbers of the label columns, which `class_names` then names.
    y: Array
    class_names: tuple[str, ...]
    clients: Labels | None
    test: NDArray[np.bool_]
    client_names: tuple[str, ...] | None = None


def read_frame(path: Path, texts: Sequence[str] = ()) -> Any:
    """The rows of a CSV file (also .gz, .xz, .bz2) or Parquet file as an Arrow table.

    Columns named in `texts` are text whatever they look like, and none of their cells counts as empty but
    those without a character.
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
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            return csv.read_csv(
                file, parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=convert
            )
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (ArrowException, OSError, EOFError, lzma.LZMAError, zlib.error, MemoryError) as error:
        raise InputError(f"{path} is no readable CSV or Parquet file: {first_line(error)}") from None


def as_frame(rows: Any, what: str) -> Any:
    """A DataFrame, an Arrow table or a mapping of columns as an Arrow table."""
    from pyarrow import ArrowException, table

    try:
        return table(rows)
    except (ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{what} is no table with columns of equal length: {first_line(error)}") from None


def labeled(
    frame: Any,
    where: str,
    label: str | Sequence[str],
    client: str | None,
    part: str | None,
    held_out: int | None,
    task: TaskName | None = None,
) -> Labeled:
    """Take labels, clients and the division into training and test part from a frame's columns.

    One column is one of classes, unless `task` is regression or it holds real numbers; several are of labels
    (0 and 1) or, if that is the task, of numbers.

    The column `part` says train or test; rows that say anything else are left out. Without it, `held_out` per
    cent of each client's rows (else of each class's) are the test part.
    """
    columns = (label,) if isinstance(label, str) else tuple(label)
    for name in filter(None, (*columns, client, part)):
        column_of(frame, name, where)
    if part is not None and held_out is not None:
        raise InputError(f"{where}: the column {part!r} says what is tested on: leave held_out out")
    if part is not None:
        said = np.array([str(value) for value in frame.column(part).to_pylist()])
        kept = np.isin(said, ("train", "test"))
        frame, test = frame.filter(kept), said[kept] == "test"
    values, class_names = _targets(frame, where, columns, task)
    ids = None if client is None else _ids(frame, where, client)
    clients = None if ids is None else number_ids(ids)[0]
    if part is None:
        whole = np.zeros(len(values), np.int64) if values.ndim > 1 else values
        groups = whole if clients is None else clients
        test = held_out_rows(groups, _HELD_OUT if held_out is None else held_out)
    for name, rows in (("train on", ~test), ("test on", test)):
        if not rows.any():
            raise InputError(f"{where}: no row is left to {name}; some must be on both sides")
    names = None if ids is None else tuple(str(one) for one in np.unique(ids))
    return Labeled(frame, values, class_names, clients, test, names)


def column_of(frame: Any, name: str, where: str) -> Any:
    """A column by its name."""
    if name not in frame.column_names:
        raise InputError(f"{where} has no column {name!r}; {nearest(name, frame.column_names)}")
    return frame.column(name)


def as_text(value: Any) -> str:
    """A category or label as text, the same whether a file has it as 3 or as 3.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _targets(
    frame: Any, where: str, names: tuple[str, ...], task: TaskName | None
) -> tuple[Array, tuple[str, ...]]:
    """The labels of one column, or the numbers of one or several."""
    if len(names) == 1 and task in (None, "classification"):
        values = _present(frame, where, names[0])
        real = any(isinstance(value, float) and not value.is_integer() for value in values)
        if not real or task == "classification":
            return _labels(values, where, names[0])
    columns = [_present(frame, where, name) for name in names]
    for name, values in zip(names, columns, strict=True):
        if any(not isinstance(value, int | float) for value in values):
            raise InputError(f"{where}: column {name!r} holds other things than numbers, which are predicted")
    return np.array(columns, np.float64).T, names


def _labels(values: Sequence[Any], where: str, name: str) -> tuple[Labels, tuple[str, ...]]:
    """Labels by number, and what they are called, in sorted order."""
    if any(isinstance(value, float) and not value.is_integer() for value in values):
        raise InputError(f"{where}: column {name!r} holds real numbers; labels must be integers or text")
    if len(distinct := sorted(set(values))) < 2:
        raise InputError(f"{where}: column {name!r} holds one label only; there must be two or more")
    numbers = {value: number for number, value in enumerate(distinct)}
    return np.array([numbers[value] for value in values], np.int64), tuple(as_text(v) for v in distinct)


def _ids(frame: Any, where: str, name: str) -> Array:
    return np.array([as_text(value) for value in _present(frame, where, name)])


def _present(frame: Any, where: str, name: str) -> list[Any]:
    """The values of a column in which none may be missing."""
    values: list[Any] = frame.column(name).to_pylist()
    for row, value in enumerate(values, start=1):
        if value is None or value == "":
            raise InputError(f"{where}: column {name!r} is empty in row {row}; every row needs a value")
    return values
