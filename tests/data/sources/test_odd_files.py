"""Files of a valid format whose content fits nothing are errors of one line."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from eunoe.data.loading import load
from eunoe.data.sources.inputs import read_inputs
from eunoe.data.sources.npz import read_npz, write_npz
from eunoe.errors import InputError
from tests.models.tiny_hf import tiny_values


@pytest.mark.parametrize("count", [3000, 9000])
def test_a_deeply_nested_header(tmp_path: Path, count: int) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"-" * count + b"1,)}\n"
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(8))
    with pytest.raises(InputError, match="no array that NumPy can read"):
        read_inputs(path, load("digits"))


@pytest.mark.parametrize("values", [np.array(["a", "b"]), np.array("a"), np.array(1.0)])
def test_values_of_varying_length_that_are_no_list_of_numbers(tmp_path: Path, values: Any) -> None:
    labels, path = np.array([0, 1]), tmp_path / "data.npz"
    np.savez(
        path,
        **{"x_train.ids": values, "offsets.x_train.ids": np.array([0, 1, 2])},
        **{"y_train": labels, "x_test": np.zeros((2, 2)), "y_test": labels},
    )
    with pytest.raises(InputError, match=r"x_train\.ids"):
        load(str(path))


@pytest.mark.parametrize(
    "content",
    ["[]", "3", '"x"', "{}", '{"encoding": [1]}', '{"encoding": {"kind": "text"}}']
    + [json.dumps({"encoding": {"unit": "words", "tokens": tokens}}) for tokens in (3, [{}], [[1]])],
)
def test_an_encoding_of_another_structure(tmp_path: Path, content: str) -> None:
    path, about = tmp_path / "texts.csv", tmp_path / "model.json"
    path.write_text("text,label\n" + "".join(f"word {row},{row % 2}\n" for row in range(20)))
    about.write_text(content)
    with pytest.raises(InputError, match=r"model\.json is not the description of a model of text"):
        load("text", path=path, encoding=about)


def test_a_small_parquet_file_does_not_fill_the_memory(tmp_path: Path) -> None:
    path, rows = tmp_path / "bomb.parquet", 5_000_000
    block = pa.table({"a": np.zeros(rows, np.int8), "label": np.zeros(rows, np.int8)})
    with parquet.ParquetWriter(path, block.schema) as writer:
        for _ in range(8):
            writer.write_table(block)
    assert path.stat().st_size < 500_000
    with pytest.raises(InputError, match="expands to 100 times its size"):
        load("table", path=path, label="label")


def test_cached_tokens_of_other_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path / "data"))
    options = {key: value for key, value in tiny_values(tmp_path)["data"].items() if key != "name"}
    load("text", **options)
    (cached,) = (tmp_path / "data/tokens").glob("*.npz")
    whole = {key: np.array(array) for key, array in read_npz(cached).items()}
    others = [{**whole, key: odd} for key in whole for odd in (np.array("x"), whole[key][:-1])]
    for arrays in ({"train": np.zeros(3)}, *others):
        cached.unlink()
        write_npz(cached, arrays)
        with pytest.raises(InputError):
            load("text", **options)
