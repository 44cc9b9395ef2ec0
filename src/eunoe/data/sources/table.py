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
from eunoe.data.arrays import from_rows
from eunoe.data.samples import DataSet
from eunoe.data.sources.frames import Percent, as_frame, as_text, get_column, label_rows, read_frame
from eunoe.errors import InputError

Floats = NDArray[np.float32]
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
    return from_table(
        read_frame(path),
        label=label,
        task=task,
        client=client,
        categorical=categorical,
        drop=drop,
        part=part,
        held_out=held_out,
        unknown=unknown,
        name=str(path),
    )


def from_table(
    frame: Any,
    *,
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
    frame = as_frame(frame, name)
    for column in (*categorical, *drop):
        get_column(frame, column, name)
    labels = (label,) if isinstance(label, str) else label
    others = {*labels, client, part, *drop}
    if twice := sorted(others & set(categorical) - {None}, key=str):
        raise InputError(f"{name}: the column {twice[0]!r} is not a feature: remove it from categorical")
    rows = label_rows(frame, name, labels, client, part, held_out, task)
    features = [column for column in frame.column_names if column not in others]
    if not features:
        raise InputError(f"{name}: no feature columns are left to predict {', '.join(map(repr, labels))}")
    encoder = TableEncoder.fit(rows.frame.filter(~rows.test), features, categorical, name)
    mean, std = encoder.moments
    data = from_rows(
        encoder.encode(rows.frame, name, unknown),
        rows.y,
        rows.test,
        rows.clients,
        name=name,
        task="regression" if task is None and len(labels) == 1 and rows.y.ndim > 1 else task,
        classes=len(rows.class_names),
        class_names=rows.class_names,
        mean=mean,
        std=std,
    )
    encoding = {**encoder.to_dict(), "label": label if isinstance(label, str) else list(label)}
    return replace(data, encoding=encoding)


@dataclass(frozen=True)
class Numeric:
    """A column of numbers: the value that fills gaps, its std, and whether gaps are marked."""

    name: str
    fill: float
    std: float
    gaps: bool

    @property
    def features(self) -> list[str]:
        return [self.name, *([f"{self.name} is missing"] if self.gaps else [])]

    @property
    def moments(self) -> list[tuple[float, float]]:
        return [(self.fill, self.std), *([(0.0, 1.0)] if self.gaps else [])]

    def encode(self, frame: Any, where: str, unknown: Unknown) -> Floats:
        values, empty = _read_numbers(frame, self.name, where)
        columns = [np.where(empty, self.fill, values), *([empty] if self.gaps else [])]
        return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True)
class Categorical:
    """A column of categories: those of the training part, and whether it has gaps."""

    name: str
    values: tuple[str, ...]
    gaps: bool

    @property
    def features(self) -> list[str]:
        missing = [f"{self.name} is missing"] if self.gaps else []
        return [*(f"{self.name} = {value}" for value in self.values), *missing, f"{self.name} is unknown"]

    @property
    def moments(self) -> list[tuple[float, float]]:
        return [(0.0, 1.0)] * len(self.features)

    def encode(self, frame: Any, where: str, unknown: Unknown) -> Floats:
        places: dict[str | None, int] = {value: place for place, value in enumerate(self.values)}
        if self.gaps:
            places[None] = len(self.values)
        last = len(self.features) - 1
        cells = [None if v is None else as_text(v) for v in get_column(frame, self.name, where).to_pylist()]
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
        columns: list[Numeric | Categorical] = []
        for column in values["columns"]:
            rest = {key: value for key, value in column.items() if key != "type"}
            if column["type"] == "numeric":
                columns.append(Numeric(**rest))
            else:
                columns.append(Categorical(**{**rest, "values": tuple(rest["values"])}))
        return cls(tuple(columns))

    def to_dict(self) -> dict[str, Any]:
        """Return all that is needed to encode other rows, as JSON values."""
        columns = [{"type": type(column).__name__.lower(), **asdict(column)} for column in self.columns]
        return {"kind": "table", "columns": columns, "features": self.features}

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and std for normalization; features that are 0 or 1 are not normalized."""
        pairs = [pair for column in self.columns for pair in column.moments]
        return tuple(mean for mean, _ in pairs), tuple(std for _, std in pairs)

    def encode(self, frame: Any, where: str = "the table", unknown: Unknown = "column") -> Floats:
        """Return rows [n, features], not yet normalized."""
        return np.concatenate([column.encode(frame, where, unknown) for column in self.columns], axis=1)


def _fit_column(train: Any, name: str, categorical: bool, where: str) -> Numeric | Categorical:
    from pyarrow import types

    column = get_column(train, name, where)
    kind = column.type
    if categorical or types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
        categories = {None if value is None else as_text(value) for value in column.to_pylist()}
        values = tuple(sorted(value for value in categories if value is not None))
        if len(values) > _MOST_CATEGORIES:
            raise InputError(
                f"{where}: column {name!r} has {len(values):,} categories; drop it, or group them into "
                f"at most {_MOST_CATEGORIES:,}"
            )
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

    column = get_column(frame, name, where)
    kind = column.type
    if types.is_boolean(kind):
        column = column.cast("int8")
    elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)):
        raise InputError(f"{where}: column {name!r} is {kind}; only numbers and text are supported: drop it")
    values = np.asarray(column.cast(float64()).to_numpy(), np.float64)
    return values, np.isnan(values)
