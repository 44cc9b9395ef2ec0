"""Tables: gaps, categories, scaling by the training part, clients, and rows that cannot be used."""

import gzip
import json
import lzma

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from eunoe.data import from_table
from eunoe.data.builtin import heart_disease
from eunoe.data.federation import Federation
from eunoe.data.loading import load
from eunoe.data.partitions.without_labels import Natural
from eunoe.data.sources.table import TableEncoder
from eunoe.errors import InputError

ROWS = """site,age,color,done,y,part
a,1,red,true,yes,train
a,3,blue,false,no,train
b,,red,true,yes,train
b,5,,false,no,train
a,11,green,true,yes,test
b,?,blue,false,no,test
c,3,red,true,no,later
"""
OPTIONS = {"label": "y", "client": "site", "part": "part"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    return path


def test_columns_become_numbers_by_the_training_part(file):
    data = load("table", path=str(file), **OPTIONS)
    assert data.encoding["features"] == [
        *("age", "age is missing"),
        *("color = blue", "color = red", "color is missing", "color is unknown"),
        "done",
    ]
    # The training ages are 1, 3 and 5; green is in the test part alone.
    assert data.train.x.tolist() == [
        [1, 0, 0, 1, 0, 0, 1],
        [3, 0, 1, 0, 0, 0, 0],
        [3, 1, 0, 1, 0, 0, 1],
        [5, 0, 0, 0, 1, 0, 0],
    ]
    assert data.test.x.tolist() == [[11, 0, 0, 0, 0, 1, 1], [3, 1, 1, 0, 0, 0, 0]]
    assert (data.class_names, data.train.y.tolist(), data.test.y.tolist()) == (
        ("no", "yes"),
        [1, 0, 1, 0],
        [1, 0],
    )
    assert data.writers_train.tolist() == [0, 0, 1, 1]
    assert data.mean == (3.0, 0, 0, 0, 0, 0, 0.5)
    assert data.std == (pytest.approx(np.sqrt(8 / 3)), 1, 1, 1, 1, 1, 0.5)
    federation = Federation.build(data, Natural())
    assert len(federation) == 2
    scaled = federation.inputs("test", torch.tensor([0]))[0]
    assert scaled.tolist() == pytest.approx([8 / np.sqrt(8 / 3), 0, 0, 0, 0, 1, 1])


def test_test_rows_change_nothing_that_is_fitted(file, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text(ROWS.replace("a,11,green", "a,900,violet"))
    one, two = (load(str(path), **OPTIONS) for path in (file, other))
    assert (one.encoding, one.mean, one.std) == (two.encoding, two.mean, two.std)


def test_every_kind_of_file_and_a_mapping_give_the_same(file, tmp_path):
    expected = load(str(file), **OPTIONS)
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(ROWS.encode()))
    (tmp_path / "rows.csv.xz").write_bytes(lzma.compress(ROWS.encode()))
    lines = [line.split(",") for line in ROWS.split()]
    columns = dict(zip(lines[0], map(list, zip(*lines[1:], strict=True)), strict=True))
    columns["age"] = [1, 3, None, 5, 11, None, 3]
    columns["color"] = [value or None for value in columns["color"]]
    columns["done"] = [value == "true" for value in columns["done"]]
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    found = [load(str(tmp_path / f"rows.{end}"), **OPTIONS) for end in ("csv.gz", "csv.xz", "parquet")]
    for data in [*found, from_table(columns, **OPTIONS)]:
        assert torch.equal(data.train.x, expected.train.x)
        assert torch.equal(data.test.x, expected.test.x)
        assert data.encoding == expected.encoding


def test_the_specification_encodes_other_rows(file):
    data = load(str(file), **OPTIONS)
    encoder = TableEncoder.from_dict(json.loads(json.dumps(data.encoding)))
    row = {"age": [None], "color": ["pink"], "done": [True]}
    assert encoder.encode(pa.table(row)).tolist() == [[3, 1, 0, 0, 0, 1, 1]]
    with pytest.raises(InputError, match="the table has no column 'done'"):
        encoder.encode(pa.table({"age": [1], "color": ["red"]}))


def test_a_share_of_each_client_is_held_out():
    rows = {"x": list(range(100)), "site": ["a"] * 60 + ["b"] * 40, "y": [0, 1] * 50}
    data = from_table(rows, label="y", client="site", held_out=25)
    assert np.bincount(data.writers_test).tolist() == [15, 10]
    assert (data.class_names, len(data.train)) == (("0", "1"), 75)
    assert np.bincount(from_table(rows, label="y").test.y).tolist() == [10, 10]
    assert from_table(rows, label="y", drop=("site",)).encoding["features"] == ["x"]


def test_numbers_may_be_categories():
    data = from_table({"kind": [1.0, 2.0] * 10, "y": ["a", "b"] * 10}, label="y", categorical=("kind",))
    assert data.encoding["features"] == ["kind = 1", "kind = 2", "kind is unknown"]


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        (
            ("b,5,,false,no", "b,5,,false,"),
            {},
            r"column 'y' is empty in row 4 \(\?, NA and null count as empty\)",
        ),
        (("b,5,", ",5,"), {}, "column 'site' is empty in row 4"),
        (("a,1,red,true", "a,1,red"), {}, "not a readable CSV or Parquet file: .*Expected 6 columns, got 5"),
        (("", ""), {"label": "z"}, "has no column 'z'"),
        (("", ""), {"drop": ("colr",)}, "has no column 'colr'; did you mean 'color'"),
        (
            ("", ""),
            {"unknown": "error"},
            "column 'color' contains 'green', which is not in the training part",
        ),
        (("", ""), {"held_out": 10}, "the column 'part' defines the test part: omit held_out"),
        (("", ""), {"categorical": ("y",)}, "the column 'y' is not a feature"),
        (("", ""), {"drop": ("age", "color", "done")}, "no feature columns are left to predict 'y'"),
        (("test", "train"), {}, "the test part has no rows"),
        (("yes", "no"), {}, "column 'y' has only one label"),
    ],
)
def test_what_cannot_be_used_is_one_line(file, change, options, says):
    file.write_text(ROWS.replace(*change) if change[0] else ROWS)
    with pytest.raises(InputError, match=says) as error:
        load(str(file), **{**OPTIONS, **options})
    assert "\n" not in str(error.value)


def test_columns_that_cannot_be_used():
    y = [0, 1] * 10
    for column, says in (
        ([None] * 20, "column 'x' is empty in the training part"),
        ([float("inf")] * 20, "column 'x' contains values that are not finite"),
        (pa.array([0] * 20, pa.timestamp("s")), "column 'x' is timestamp"),
    ):
        with pytest.raises(InputError, match=says):
            from_table({"x": column, "y": y}, label="y")
    many = [str(number) for number in range(3000)]
    with pytest.raises(InputError, match=r"column 'x' has 2,400 categories; group or drop them"):
        from_table({"x": many, "y": [0, 1] * 1500}, label="y")
    with pytest.raises(InputError, match="has real numbers; labels are integers or text"):
        from_table({"x": y, "y": [0.5, 1.0] * 10}, label="y", task="classification")
    with pytest.raises(InputError, match="is not a table with columns of equal length"):
        from_table({"x": [1, 2], "y": [0]}, label="y")


def test_a_file_that_is_absent(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*none.csv"):
        load(str(tmp_path / "none.csv"), label="y")


HEART = "hospital,age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,num"


def test_heart_disease_by_hospital(tmp_path, monkeypatch):
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path))
    with pytest.raises(
        InputError, match=r"no file .*heart_disease.csv \(nor .csv.gz, .csv.xz\): put it there"
    ):
        heart_disease()
    rows = [f"h{i % 2},{40 + i},1.0,{i % 4},,200,0,0,150,0,1.5,2,0,,{i % 5}" for i in range(40)]
    text = "\n".join([HEART, *rows]) + "\n"
    # A column that is empty everywhere could not be fitted.
    text = text.replace(",,200", ",130,200", 30)
    text = text.replace("2,0,,", "2,0,3,", 35)
    (tmp_path / "heart_disease.csv.xz").write_bytes(lzma.compress(text.encode()))
    data = load("heart_disease")
    assert data.class_names == ("absent", "present")
    assert (len(data.train), len(data.test)) == (32, 8)
    assert len(Federation.build(data, Natural())) == 2
    assert "cp = 0" in data.encoding["features"]
    assert "hospital" not in str(data.encoding["features"])
    assert int((torch.cat([data.train.y, data.test.y]) == 0).sum()) == 8


NUMBERS = "age,site,cost,pain,fever\n" + "\n".join(
    f"{n},{'ab'[n % 2]},{n / 4 + 0.1},{n % 2},{int(n % 3 == 0)}" for n in range(20)
)


@pytest.fixture(name="numbers")
def _numbers(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text(NUMBERS)
    return str(path)


def test_a_column_of_real_numbers_is_predicted(numbers):
    data = load("table", path=numbers, label="cost", client="site", drop=["pain", "fever"])
    assert (data.task.name, data.classes, data.class_names) == ("regression", 1, ("cost",))
    assert data.encoding["label"] == "cost"
    whole = load("table", path=numbers, label="age", task="regression", drop=["pain", "fever"])
    assert whole.task.name == "regression"
    assert load("table", path=numbers, label="age", client="site", drop=["pain"]).classes == 20


def test_several_columns_of_0_and_1_are_labels(numbers):
    data = load("table", path=numbers, label=["pain", "fever"], client="site", drop=["cost"])
    assert (data.task.name, data.classes, data.class_names) == ("multilabel", 2, ("pain", "fever"))
    assert data.encoding["label"] == ["pain", "fever"]
    two = load("table", path=numbers, label=["age", "cost"], task="regression")
    assert (two.task.name, two.classes) == ("regression", 2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label": "cost", "task": "classification"}, "column 'cost' has real numbers; labels are"),
        ({"label": ["age", "cost"]}, "is not multilabel .*set task = 'regression'"),
        ({"label": "site", "task": "regression"}, "column 'site' has values other than numbers"),
        ({"label": ["pain", "fver"]}, "no column 'fver'; did you mean 'fever'"),
        ({"label": ["pain", "cost"], "task": "multilabel"}, "has values other than 0 and 1"),
    ],
)
def test_columns_that_cannot_be_predicted(numbers, options, says):
    with pytest.raises(InputError, match=says) as raised:
        load("table", path=numbers, **options)
    assert "\n" not in str(raised.value)
