"""Raw inputs to predict: encoded as in training, in whichever form they come."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import csv as arrow_csv

from eunoe.data import TableEncoder, TextEncoder, from_arrays, from_table
from eunoe.data.loading import load
from eunoe.data.samples import DataSet
from eunoe.data.sources.inputs import read_inputs
from eunoe.errors import InputError

HEADER = "code,age,ward,smoker,y,part\n"
TRAIN = "01,20,1,true,a,train\nB2,40,2,false,b,train\n,,1,true,a,train\nB2,60,2,,b,train\n,9,3,,b,test\n"
# Categories that look like numbers, gaps in different spellings, and an unknown category.
RAW = "01,30,1,true\n02,,2,false\n,NA,1,true\nB2,?,,false\n"
ENCODED = [
    # code = 01, = B2, missing, unknown; age, missing; ward = 1, = 2, unknown; smoker, missing
    [1, 0, 0, 0, 30, 0, 1, 0, 0, 1, 0],
    [0, 0, 0, 1, 40, 1, 0, 1, 0, 0, 0],
    [0, 0, 1, 0, 40, 1, 1, 0, 0, 1, 0],
    [0, 1, 0, 0, 40, 1, 0, 0, 1, 0, 0],
]


@pytest.fixture
def table(tmp_path: Path) -> DataSet:
    (tmp_path / "train.csv").write_text(HEADER + TRAIN)
    return load(str(tmp_path / "train.csv"), label="y", part="part", categorical=("ward",))


def rows_as(form: str, folder: Path) -> Any:
    text = HEADER.replace(",y,part", "") + RAW
    cells = list(csv.DictReader(io.StringIO(text)))
    if form == "file":
        (folder / "raw.csv").write_text(text)
        return str(folder / "raw.csv")
    if form == "arrow":
        return arrow_csv.read_csv(io.BytesIO(text.encode()))
    if form == "dicts":
        return cells
    if form == "columns":
        return {name: [row[name] for row in cells] for name in cells[0]}
    if form == "lists":
        return [list(row.values()) for row in cells]
    if form == "mixed":
        return [{**row, "age": float(row["age"]) if row["age"].isdigit() else None} for row in cells]
    pandas = pytest.importorskip("pandas")
    return pandas.read_csv(io.StringIO(text), dtype={"code": str}, na_values=["?"])


@pytest.mark.parametrize("form", ["file", "arrow", "dicts", "columns", "lists", "mixed", "frame"])
def test_rows_are_encoded_as_in_training(form: str, table: DataSet, tmp_path: Path) -> None:
    assert read_inputs(rows_as(form, tmp_path), table).tolist() == ENCODED


def test_encoded_rows_are_taken_as_they_are(table: DataSet) -> None:
    assert read_inputs(ENCODED, table).tolist() == ENCODED
    assert read_inputs(torch.tensor(ENCODED), table).tolist() == ENCODED
    one = {"code": "01", "age": 30, "ward": 1, "smoker": True}
    assert read_inputs(one, table).tolist() == ENCODED[:1]
    assert table.encoding is not None
    assert table.encoding["column_order"] == ["code", "age", "ward", "smoker"]
    assert TableEncoder.from_dict(table.encoding).encode([one]).tolist() == ENCODED[:1]


def test_rows_of_numbers_need_no_names() -> None:
    data = from_table({"b": [1.0, 2.0] * 9, "a": [0.0, 5.0] * 9, "y": [0, 1] * 9}, label="y")
    assert read_inputs(np.array([[3, 4]]), data).tolist() == [[3, 4]]
    assert read_inputs({"a": [4], "b": [3], "y": [0]}, data).tolist() == [[3, 4]]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[1, 2, 3]], "x must have 4 cells in each row, in this order: code, age, ward, smoker"),
        ([{"code": "B2", "age": "old", "ward": 1, "smoker": True}], "column 'age' contains 'old', which is"),
        ([{"code": "B2", "ward": 1, "smoker": True}], "x has no column 'age'"),
        ([], "x is empty: pass at least one row"),
        ("nothing.csv", "there is no file nothing.csv"),
    ],
)
def test_wrong_rows_are_one_line(rows: Any, says: str, table: DataSet) -> None:
    with pytest.raises(InputError, match=says):
        read_inputs(rows, table)


def test_unknown_categories_are_refused_as_in_training() -> None:
    rows = {"x": ["a", "b"] * 9, "y": [0, 1] * 9}
    data = from_table(rows, label="y", unknown="error")
    with pytest.raises(InputError, match="contains 'c', which is not in the training part"):
        read_inputs([{"x": "c"}], data)


def test_sentences(tmp_path: Path) -> None:
    path = tmp_path / "text.csv"
    path.write_text("sentence,label\n" + "good day,1\nbad night,0\n" * 9)
    data = load("text", path=path, text="sentence", length=3)
    ids = read_inputs(["a bad day", "good"], data)
    words = {
        word: data.train.tensor[row, place].item() for word, row, place in (("bad", 1, 0), ("day", 0, 1))
    }
    assert ids[0].tolist() == [1, words["bad"], words["day"]]
    raw = tmp_path / "raw.csv"
    raw.write_text("id,sentence\n1,a bad day\n2,good\n")
    columns = {"sentence": ["a bad day", "good"]}
    for form in (raw, columns, pa.table(columns), [{"sentence": s} for s in columns["sentence"]], ids):
        assert torch.equal(read_inputs(form, data), ids)
    assert data.encoding is not None
    assert (
        TextEncoder.from_dict(data.encoding).encode(pa.array(["a bad day", "good"])).tolist() == ids.tolist()
    )
    with pytest.raises(InputError, match="row 2 is None, not text"):
        read_inputs(["good", None], data)
    with pytest.raises(InputError, match="no column 'sentence'"):
        read_inputs([{"words": "good"}], data)


def test_images_and_arrays_in_files(tmp_path: Path) -> None:
    x = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4)
    data = from_arrays(x, np.array([0, 1]), x, np.array([0, 1]))
    for place, image in enumerate(x):
        Image.fromarray(image).save(tmp_path / f"{place}.png")
    paths = sorted(tmp_path.iterdir())
    for form in (x, x.tolist(), torch.from_numpy(x), tmp_path, paths):
        assert np.array_equal(read_inputs(form, data), x)
    np.save(tmp_path / "x.npy", x)
    assert np.array_equal(read_inputs(tmp_path / "x.npy", data), x)
    np.lib.format.write_array_header_1_0(
        file := io.BytesIO(), {"descr": "|u1", "fortran_order": False, "shape": (10**15, 4, 4)}
    )
    (tmp_path / "short.npy").write_bytes(file.getvalue())
    with pytest.raises(InputError, match=r"short\.npy is no array that NumPy can read"):
        read_inputs(tmp_path / "short.npy", data)
    (tmp_path / "damaged.npy").write_bytes(file.getvalue().replace(b"}", b" "))
    with pytest.raises(InputError, match=r"damaged\.npy is no array that NumPy can read"):
        read_inputs(tmp_path / "damaged.npy", data)
    with pytest.raises(InputError, match=r"x has shape \[2, 4\]; the model takes \[samples, 4, 4\]"):
        read_inputs(x[0, :2], data)
    with pytest.raises(InputError, match=r"there is no file photo\.png"):
        read_inputs("photo.png", data)
    rows = from_arrays(x[:, 0].astype(float), np.array([0, 1]), x[:, 0].astype(float), np.array([0, 1]))
    with pytest.raises(InputError, match="the model does not take images"):
        read_inputs(paths, rows)
