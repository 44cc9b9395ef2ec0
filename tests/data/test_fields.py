"""Inputs of several fields: checked, stored flat, written to files and read again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from eunoe.core.fields import Fields, Ragged
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.data.samples import checksum
from eunoe.data.sources.npz import npz, pack_fields, write_npz
from eunoe.errors import InputError
from eunoe.simulation.export import describe
from tests.field_inputs import columns, field_federation

Y = np.array([0, 1, 0, 1])
PLAIN = np.zeros((4, 2), np.float32)


def test_fields_keep_their_types_and_are_stored_flat() -> None:
    x, y = columns()
    stored = from_arrays(x, y, x, y).train.x
    assert isinstance(stored, Fields)
    ids, mask, numbers, category = stored.values
    assert ids.values.tolist() == np.concatenate(x["ids"]).tolist()
    assert ids.offsets.diff().tolist() == [len(sample) for sample in x["ids"]]
    assert (mask.values.dtype, numbers.dtype, category.shape) == (torch.bool, torch.float64, (240,))
    assert numbers.data_ptr() == x["numbers"].ctypes.data


def test_a_federation_of_fields() -> None:
    federation = field_federation()
    batch = federation.inputs("clients", torch.tensor([3, 5]), 0)
    assert isinstance(batch, Fields)
    assert batch.names == ("ids", "mask", "numbers", "category")
    assert [value.dtype for value in batch.values] == [torch.int64, torch.int64, torch.float32, torch.int64]
    assert federation.form.shapes == {"ids": (8,), "mask": (8,), "numbers": (2,), "category": ()}
    assert federation.form.numbers == 19
    assert "{ids: int64 [any], mask: bool [any], numbers: float64 [2], category: int64 []}" in repr(
        federation
    )
    about = describe(federation)
    assert about["input"]["ids"] == {"dtype": "int64", "shape": [None], "padding": 0}
    assert about["model_input"]["numbers"] == {"dtype": "float32", "shape": [2]}
    assert about["steps"][0] == "ids: pad to the longest sample"
    with pytest.raises(InputError, match="inputs have several fields, each with its own shape: ids, mask"):
        _ = federation.shape


def test_a_single_field_of_varying_length() -> None:
    x = Ragged.of([torch.arange(n) for n in (1, 3, 2, 5)])
    federation = Federation.from_arrays(x, Y, x, Y, clients=1, partition="iid", validation=0.0)
    assert federation.shape == (5,)
    assert federation.data.vocabulary == 5
    assert federation.inputs("test", torch.tensor([0, 2])).tolist() == [[0, 0], [0, 1]]


def test_a_torch_dataset_of_dicts() -> None:
    x, y = columns(40)

    class Rows(Dataset[Any]):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, row: int) -> Any:
            return {name: torch.as_tensor(values[row]) for name, values in x.items()}, int(y[row])

    made = Federation.from_torch(Rows(), Rows(), clients=2, partition="iid").data
    expected = from_arrays(x, y, x, y)
    assert checksum(made.train, made.test) == checksum(expected.train, expected.test)


def test_files_hold_fields(tmp_path: Path) -> None:
    x, y = columns(30)
    data = from_arrays(x, y, x, y)
    stored = data.train.x
    assert isinstance(stored, Fields)
    stored = Fields(
        [Ragged(stored.values[0].values, stored.values[0].offsets, 7), *stored.values[1:]], stored.names
    )
    for inputs in (stored, Fields(stored.values[2:]), stored.values[0]):
        arrays = {
            **pack_fields("x_train", inputs),
            **pack_fields("x_test", inputs),
            "y_train": y,
            "y_test": y,
        }
        write_npz(tmp_path / "data.npz", arrays)
        read = npz(tmp_path / "data.npz")
        expected = from_arrays(inputs, y, inputs, y)
        assert checksum(read.train, read.test) == checksum(expected.train, expected.test)
        assert repr(read.train) == repr(expected.train)


@pytest.mark.parametrize(
    ("x", "says"),
    [
        ({}, "x has no field"),
        ({"a": PLAIN, "b": PLAIN[:3]}, "x: a has 4, b has 3 samples; all fields must have the same number"),
        ({"a": PLAIN[:3]}, "x has 3 samples and y 4"),
        ((PLAIN, np.array(["one"] * 4)), r"x\[1\] is text; inputs must be numbers"),
        ({"a": [np.zeros((1, 2)), np.zeros((2, 3)), [], []]}, r"x\['a'\] has samples of different shapes"),
        ({"a": [[1], [2, 3], 4, [5]]}, r"x\['a'\] has samples of different shapes"),
        ({"a": Ragged(torch.zeros(3), torch.tensor([0, 2]))}, r"x\['a'\]: offsets must rise from 0 to 3"),
        ({"a": np.full((4, 1), np.nan)}, r"x\['a'\] contains values that are not finite"),
        ([[1], [2, 3], [4], [5]], "x consists of lists of unequal lengths"),
    ],
)
def test_what_does_not_fit(x: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Federation.from_arrays(x, Y, clients=1, partition="iid")


def test_parts_must_be_alike() -> None:
    with pytest.raises(InputError, match=r"x_train is {a: float32 \[2\]} but x_test is {b: float32 \[2\]}"):
        from_arrays({"a": PLAIN}, Y, {"b": PLAIN}, Y)
    with pytest.raises(InputError, match="several fields are not normalized: omit mean and std"):
        _ = Federation.from_arrays(
            {"a": PLAIN}, Y, clients=1, partition="iid", mean=(0,), std=(1,)
        ).preprocess
