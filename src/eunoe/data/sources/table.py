"""Tables: CSV files, Parquet files and DataFrames with a label and features in each row.

Columns are encoded as numbers by a `TableEncoder`, fitted to the training part and stored as plain JSON. A
numeric column becomes one feature with gaps filled by the mean, and a second one that is 1 in the gaps if the
training part has gaps. A categorical column becomes one feature for each category of the training part, one
for gaps if there are any, and one for categories that the training part does not have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eunoe.core.tasks import TaskName
from eunoe.data.samples import DataSet
from eunoe.data.sources import frames
from eunoe.data.sources.frames import Percent
from eunoe.errors import InputError

Floats = NDArray[np.float32]
# The name of a feature, and its mean and std for normalization.
Feature = tuple[str, float, float]
Unknown = Literal["column", "error"]
# A column with more categories is most likely an id.
_MOST_CATEGORIES = 1000


def table(
    path: Path,
    *,
    label: str | tuple[str, ...],
    task: TaskName | None = None,
    client: str | None = None,
    categorical: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
    part: str | None = None,
    held_out: Percent | None = None,
    unknown: Unknown = "column",
) -> DataSet:
    """A CSV or Parquet file with a row for each sample; text and the columns of `categorical` are categories.

    `client` is the column of client ids; `part` is a column that says train or test, without which `held_out`
    percent (20) of each client's rows are the test part. Scaling, filled gaps and categories come from the
    training part; another category counts as unknown, or is an error.

    A `label` column of real numbers is regression, several columns of 0 and 1 are multilabel; set `task`
    otherwise.
    """
    frame = frames.read_frame(path)
    return from_table(frame, label, task, client, categorical, drop, part, held_out, unknown, str(path))


def from_table(
    frame: Any,
    label: str | tuple[str, ...],
    task: TaskName | None = None,
    client: str | None = None,
    categorical: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
    part: str | None = None,
    held_out: int | None = None,
    unknown: Unknown = "column",
    name: str = "table",
) -> DataSet:
    """Build a data set from a DataFrame, an Arrow table or a mapping of columns; options as of `table`."""
    frame = frames.as_frame(frame, name)
    for column in (*categorical, *drop):
        frames.get_column(frame, column, name)
    labels = (label,) if isinstance(label, str) else label
    others = {*labels, client, part, *drop}
    if twice := sorted(others & set(categorical) - {None}, key=str):
        raise InputError(f"{name}: the column {twice[0]!r} is not a feature: remove it from categorical")
    rows = frames.label_rows(frame, name, labels, client, part, held_out, task)
    features = [column for column in frame.column_names if column not in others]
    if not features:
        raise InputError(f"{name}: no feature columns are left to predict {', '.join(map(repr, labels))}")
    encoder = TableEncoder.fit(rows.frame.filter(~rows.test), features, categorical, name)
    mean, std = encoder.moments
    if task is None and len(labels) == 1 and rows.y.ndim > 1:
        task = "regression"
    data = rows.dataset(encoder.encode(rows.frame, name, unknown), name, task=task, mean=mean, std=std)
    about = {"label": label if isinstance(label, str) else list(label), "unknown": unknown}
    return replace(data, encoding={**encoder.to_dict(), **about})


@dataclass(frozen=True)
class Numeric:
    """A column of numbers: the value that fills gaps, its std, and whether gaps are marked."""

    name: str
    fill: float
    std: float
    gaps: bool

    @property
    def features(self) -> list[Feature]:
        missing = [(f"{self.name} is missing", 0.0, 1.0)] if self.gaps else []
        return [(self.name, self.fill, self.std), *missing]

    def encode(self, frame: Any, where: str, unknown: Unknown) -> Floats:
        values, empty = _read_numbers(frame, self.name, where)
        columns = [np.where(empty, self.fill, values), *([empty] if self.gaps else [])]
        return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True)
class Categorical:
    """A column of categories: those of the training part, and whether it has gaps."""

    name: str
    values: Sequence[str]
    gaps: bool

    @property
    def features(self) -> list[Feature]:
        names = [f"= {value}" for value in self.values] + ["is missing"] * self.gaps + ["is unknown"]
        return [(f"{self.name} {name}", 0.0, 1.0) for name in names]

    def encode(self, frame: Any, where: str, unknown: Unknown) -> Floats:
        places: dict[str | None, int] = {value: place for place, value in enumerate(self.values)}
        if self.gaps:
            places[None] = len(self.values)
        last = len(self.features) - 1
        cells = [_spell(value, places) for value in frames.column_values(frame, self.name, where)]
        new = next((cell for cell in cells if cell not in places), "")
        if unknown == "error" and new != "":
            raise InputError(
                f"{where}: column {self.name!r} contains {new!r}, which is not in the training part "
                f"({', '.join(self.values)})"
            )
        rows = np.zeros((len(cells), last + 1), np.float32)
        rows[np.arange(len(cells)), [places.get(cell, last) for cell in cells]] = 1
        return rows


@dataclass(frozen=True)
class TableEncoder:
    """Encodes each row of a table as a real vector."""

    columns: tuple[Numeric | Categorical, ...]

    @classmethod
    def fit(cls, train: Any, names: Sequence[str], categorical: Sequence[str], where: str) -> "TableEncoder":
        """Fit an encoder to the training part."""
        return cls(tuple(_fit_column(train, name, name in categorical, where) for name in names))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TableEncoder":
        """Return the encoder that `to_dict` wrote, as in the JSON file of an exported model."""
        kinds: dict[str, Any] = {"numeric": Numeric, "categorical": Categorical}
        columns = [dict(column) for column in values["columns"]]
        return cls(tuple(kinds[column.pop("type")](**column) for column in columns))

    def to_dict(self) -> dict[str, Any]:
        """Return all that is needed to encode other rows, as JSON values."""
        columns = [{"type": type(column).__name__.lower(), **asdict(column)} for column in self.columns]
        order = [column.name for column in self.columns]
        return {"kind": "table", "column_order": order, "columns": columns, "features": self.features}

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return [name for column in self.columns for name, _, _ in column.features]

    @property
    def moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and std for normalization; features that are 0 or 1 are not normalized."""
        features = [feature for column in self.columns for feature in column.features]
        return tuple(mean for _, mean, _ in features), tuple(std for _, _, std in features)

    def encode(self, rows: Any, where: str = "the table", unknown: Unknown = "column") -> Floats:
        """Return rows [n, features], not yet normalized.

        `rows` are a DataFrame, an Arrow table, a path, a mapping of columns, dicts, or lists of cells in the
        order of the columns. As in CSV files for training, an empty string, NA and the like are missing.
        """
        names = [column.name for column in self.columns]
        texts = [column.name for column in self.columns if isinstance(column, Categorical)]
        frame = frames.raw_frame(rows, names, texts, where)
        return np.concatenate([column.encode(frame, where, unknown) for column in self.columns], axis=1)


def _spell(value: Any, places: Mapping[str | None, int]) -> str | None:
    """Return a cell as the training part spells it; None if it is empty."""
    text = None if value is None else frames.as_text(value)
    if text is None or text in places:
        return text
    if frames.is_empty(text):
        return None
    try:
        other = frames.as_text(float(text))
    except ValueError:
        other = text.capitalize() if text.lower() in ("true", "false") else text
    return other if other in places else text


def _fit_column(train: Any, name: str, categorical: bool, where: str) -> Numeric | Categorical:
    from pyarrow import types

    kind = frames.get_column(train, name, where).type
    if categorical or frames.is_text(kind) or types.is_dictionary(kind):
        cells = frames.column_values(train, name, where)
        categories: set[Any] = {None if value is None else frames.as_text(value) for value in cells}
        values = sorted(categories - {None})
        if len(values) > _MOST_CATEGORIES:
            raise InputError(f"{where}: column {name!r} has {len(values):,} categories; group or drop them")
        return Categorical(name, values, None in categories)
    numbers, empty = _read_numbers(train, name, where)
    if empty.all():
        raise InputError(f"{where}: column {name!r} is empty in the training part; drop it")
    present = numbers[~empty]
    if not np.isfinite(present).all():
        raise InputError(f"{where}: column {name!r} contains values that are not finite; fill or drop them")
    return Numeric(name, float(present.mean()), float(present.std()) or 1.0, bool(empty.any()))


def _read_numbers(frame: Any, name: str, where: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the numbers of a column, and a mask of its gaps."""
    from pyarrow import float64, types

    column = frames.get_column(frame, name, where)
    kind = column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_boolean(kind):
        column = column.cast("int8")
    elif frames.is_text(kind):
        values = np.array([_parse(cell, name, where) for cell in column.to_pylist()], np.float64)
        return values, np.isnan(values)
    elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)):
        raise InputError(f"{where}: column {name!r} is {kind}; only numbers and text are supported: drop it")
    # Integers above 2^53 are rounded.
    values = np.asarray(column.cast(float64(), safe=False).to_numpy(), np.float64)
    return values, np.isnan(values)


def _parse(cell: str | None, name: str, where: str) -> float:
    """Return the number that a text says; NaN if it is empty."""
    if cell is None or frames.is_empty(cell):
        return float("nan")
    try:
        return float({"true": "1", "false": "0"}.get(cell.lower(), cell))
    except ValueError:
        raise InputError(f"{where}: column {name!r} contains {cell!r}, which is not a number") from None
