"""Specifications of the built-in data sets: shape, place on the hub, normalization, checksum."""

from dataclasses import dataclass

from pydantic import TypeAdapter

from eunoe.data.sources.hub import HubSpec
from eunoe.text import read_data


@dataclass(frozen=True)
class DataSetSpec:
    """A built-in data set, a section of specs.toml.

    `rows` are those of the hub's training and test splits; `sha256` is that of the arrays x_train, y_train,
    x_test, y_test one after the other in their official order. `mean` and `std` are None if they
    are measured when the data is loaded. `about` is the docstring of its loader.
    """

    classes: int
    shape: tuple[int, ...]
    rows: tuple[int, int]
    class_names: tuple[str, ...] | None = None
    hub: HubSpec | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    writers: bool = False
    dtype: str = "uint8"
    sha256: str | None = None
    about: str = ""


_VALUES = read_data("eunoe.data", "specs.toml")
# Data sets that are stored as a CSV file: their `columns` and number of `classes`.
TABLES = _VALUES.pop("tables")
for _spec in _VALUES.values():
    _spec["class_names"] = _spec["class_names"].split(", ") if "class_names" in _spec else None

SPECS = TypeAdapter(dict[str, DataSetSpec]).validate_python(_VALUES)
