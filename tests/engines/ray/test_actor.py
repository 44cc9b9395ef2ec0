"""Values that go through a store come out as they were, in memory where torch would put them."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from eunoe.core.flat_model import FlatModel
from eunoe.engines.ray.actor import pack, unpack

pytest.importorskip("ray")


def through_a_store(value: Any, shift: int, copy: bool) -> Any:
    """Packed and unpacked, with the arrays in memory that is read-only and begins at an odd place."""
    data, buffers = pack(value)
    moved = []
    for buffer in buffers:
        room = np.zeros(len(buffer) + 128, np.uint8)
        first = -room.ctypes.data % 64 + shift
        room[first : first + len(buffer)] = buffer
        place = room[first : first + len(buffer)]
        place.flags.writeable = False
        moved.append(place)
    return unpack((data, moved), copy)


@pytest.mark.parametrize("shift", [0, 8])
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.filterwarnings("error")
def test_tensors_and_arrays_come_out_equal_and_aligned(shift: int, copy: bool) -> None:
    value = {
        "float": torch.randn(7, 5),
        "bytes": torch.arange(200, dtype=torch.uint8),
        "half": torch.randn(9).bfloat16(),
        "turned": torch.randn(4, 6).T,
        "one": torch.tensor(3.5, dtype=torch.float64),
        "none": torch.empty(0),
        "array": np.arange(12).reshape(3, 4),
    }
    found = through_a_store(value, shift, copy)
    assert list(found) == list(value)
    for name, tensor in value.items():
        assert found[name].dtype == tensor.dtype
        assert (found[name] == tensor).all()
    for name in ("float", "bytes", "one"):
        assert found[name].data_ptr() % 64 == 0


def test_only_what_is_not_aligned_is_copied() -> None:
    data, buffers = pack(torch.zeros(1000))
    aligned = torch.zeros(4000, dtype=torch.uint8).numpy()
    assert len(buffers) == 1
    assert unpack((data, [aligned]), copy=False).data_ptr() == aligned.ctypes.data
    assert unpack((data, [aligned]), copy=True).data_ptr() != aligned.ctypes.data


def test_the_memory_of_tensors_is_not_among_the_bytes() -> None:
    data, buffers = pack([torch.zeros(100_000), np.zeros(100_000)])
    assert len(data) < 1000
    assert sum(len(buffer) for buffer in buffers) == 1_200_000


@pytest.mark.parametrize("way", ["pickle", "packed"])
def test_a_model_that_was_sent_is_still_flat(way: str) -> None:
    model = FlatModel(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)))
    sent = pickle.loads(pickle.dumps(model)) if way == "pickle" else through_a_store(model, 8, copy=False)
    assert torch.equal(sent.parameters, model.parameters)
    x = torch.randn(5, 3)
    assert torch.equal(sent.forward(x), model.forward(x))
    sent.parameters.zero_()
    assert sent.forward(x).abs().sum() == 0
    sent.forward(x).sum().backward()
    assert sent.gradient.abs().sum() > 0
    assert torch.equal(sent.float_buffers, model.float_buffers) is False
