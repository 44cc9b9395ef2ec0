"""Rows of parquet files: inputs, labels, client ids and class names."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eunoe.data.checks import Array
from eunoe.data.sources.hub import HubSpec, count_rows, read_class_names, read_columns
from eunoe.data.sources.images import ImageDecoder
from eunoe.errors import InputError

COLUMNS = HubSpec("me/rows", image="x", label="y", client="who")


def written(path: Path, metadata: dict[str, str] | None = None, **columns: Any) -> Path:
    given = {"x": [[1.0, 2.0], [3.0, 4.0]], "y": [0, 1], "who": ["b", "a"], **columns}
    table = pa.table(given)
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return path


def read(*files: Path) -> dict[str, Array]:
    return read_columns(files, COLUMNS, ImageDecoder())


def test_files_follow_one_another(tmp_path: Path) -> None:
    files = [written(tmp_path / "0.parquet"), written(tmp_path / "1.parquet", y=[2, 0])]
    assert count_rows(files) == 4
    rows = read(*files)
    assert rows["x"].tolist() == [[1.0, 2.0], [3.0, 4.0]] * 2
    assert rows["y"].tolist() == [0, 1, 2, 0]
    assert rows["writer"].tolist() == ["b", "a"] * 2
    assert read_class_names(files[0], "y") is None


@pytest.mark.parametrize(
    ("metadata", "names"),
    [
        ({"info": {"features": {"y": {"names": ["cat", "dog"]}}}}, ("cat", "dog")),
        ({"info": {"features": {"y": {}}}}, None),
        ({"info": []}, None),
        ([], None),
        ("not JSON", None),
    ],
)
def test_class_names_are_those_of_the_metadata(tmp_path: Path, metadata: Any, names: Any) -> None:
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    assert read_class_names(written(tmp_path / "0.parquet", {"huggingface": text}), "y") == names


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"y": [0.5, 1.0]}, "0.parquet: column 'y' is double; labels must be integers"),
        ({"who": [0.5, 1.0]}, "column 'who' is double; client ids must be integers or strings"),
        ({"y": [0, None]}, "column 'y' has empty cells; fill them"),
        ({"x": [[1.0], [1.0, 2.0]]}, "rows 0 to 1 have lists of unequal length"),
        ({"x": ["a", "b"]}, "rows are string; images or lists of numbers are needed"),
    ],
)
def test_columns_that_cannot_be_used(tmp_path: Path, columns: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(written(tmp_path / "0.parquet", **columns))


def test_files_without_rows_are_named(tmp_path: Path) -> None:
    empty = {
        "x": pa.array([], pa.list_(pa.float64())),
        "y": pa.array([], pa.int64()),
        "who": pa.array([], pa.string()),
    }
    files = [written(tmp_path / f"{number}.parquet", **empty) for number in range(3)]
    with pytest.raises(InputError, match=r"0.parquet, 1.parquet, 2.parquet: no rows"):
        read(*files)
