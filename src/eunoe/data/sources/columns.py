"""Numbers from the columns of a table, by what the training part holds; the specification is plain JSON.

A numeric column becomes one number, its gaps filled by the mean, and a second one that is 1 in the gaps if
the training part has gaps. A categorical column becomes one number for each category of the training part,
one for gaps if there are some, and one that is reserved for categories that the training part does not have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eunoe.data.sources.frames import as_text, column_of
from eunoe.errors import InputError

Floats = NDArray[np.float32]
Unknown = Literal["column", "error"]
# More categories than this are most likely an id that says nothing of other rows.
_MOST_CATEGORIES = 1000


@dataclass(frozen=True)
class Numeric:
    """A column of numbers: what fills its gaps, whether they are marked, and its spread."""

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
        values, empty = _numbers(frame, self.name, where)
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
        cells = [None if v is None else as_text(v) for v in column_of(frame, self.name, where).to_pylist()]
        strange = next((cell for cell in cells if cell not in places), "")
        if unknown == "error" and strange != "":
            raise InputError(
                f"{where}: column {self.name!r} holds {strange!r}, which the training part does not have; "
                "it has " + ", ".join(self.values)
            )
        rows = np.zeros((len(cells), last + 1), np.float32)
        rows[np.arange(len(cells)), [places.get(cell, last) for cell in cells]] = 1
        return rows


@dataclass(frozen=True)
class TableEncoder:
    """Turns rows of a table into model inputs, one real vector each."""

    columns: tuple[Numeric | Categorical, ...]

    @classmethod
    def fit(cls, train: Any, names: Sequence[str], categorical: Sequence[str], where: str) -> "TableEncoder":
        """The encoder that follows from the training part."""
        return cls(tuple(_fitted(train, name, name in categorical, where) for name in names))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TableEncoder":
        """The encoder that `to_dict` wrote, as in the JSON file beside an exported model."""
        columns: list[Numeric | Categorical] = []
        for column in values["columns"]:
            rest = {key: value for key, value in column.items() if key != "type"}
            if column["type"] == "numeric":
                columns.append(Numeric(**rest))
            else:
                columns.append(Categorical(**{**rest, "values": tuple(rest["values"])}))
        return cls(tuple(columns))

    def to_dict(self) -> dict[str, Any]:
        """All that it takes to encode other rows, in what JSON can say."""
        columns = [{"type": type(column).__name__.lower(), **asdict(column)} for column in self.columns]
        return {"kind": "table", "columns": columns, "features": self.features}

    @property
    def features(self) -> list[str]:
        """The names of the numbers that a row becomes."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and std to normalize by; numbers that are 0 or 1 stay as they are."""
        pairs = [pair for column in self.columns for pair in column.moments]
        return tuple(mean for mean, _ in pairs), tuple(std for _, std in pairs)

    def encode(self, frame: Any, where: str = "the table", unknown: Unknown = "column") -> Floats:
        """Rows [n, features], numbers as they are and not yet normalized."""
        return np.concatenate([column.encode(frame, where, unknown) for column in self.columns], axis=1)


def _fitted(train: Any, name: str, categorical: bool, where: str) -> Numeric | Categorical:
    from pyarrow import types

    column = column_of(train, name, where)
    kind = column.type
    if categorical or types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
        found = {None if value is None else as_text(value) for value in column.to_pylist()}
        values = tuple(sorted(value for value in found if value is not None))
        if len(values) > _MOST_CATEGORIES:
            raise InputError(
                f"{where}: column {name!r} has {len(values):,} categories; drop it, or group them into "
                f"at most {_MOST_CATEGORIES:,}"
            )
        return Categorical(name, values, None in found)
    numbers, empty = _numbers(train, name, where)
    if empty.all():
        raise InputError(f"{where}: column {name!r} has no value in the training part; drop it")
    present = numbers[~empty]
    if not np.isfinite(present).all():
        raise InputError(f"{where}: column {name!r} holds values that are not finite; fill or drop them")
    return Numeric(name, float(present.mean()), float(present.std()) or 1.0, bool(empty.any()))


def _numbers(frame: Any, name: str, where: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers of a column, and where it is empty."""
    from pyarrow import float64, types

    column = column_of(frame, name, where)
    kind = column.type
    if types.is_boolean(kind):
        column = column.cast("int8")
    elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind)):
        raise InputError(
            f"{where}: column {name!r} is {kind}; columns must be numbers, or categories as text: drop it"
        )
    values = column.cast(float64()).to_numpy()
    empty = np.isnan(values)
    return np.asarray(values, np.float64), empty
