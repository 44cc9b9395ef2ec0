"""Samples of several fields and of varying length: stored flat, padded by batch."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import vmap

from eunoe.core.fields import Fields, Ragged, as_input, call, describe_input, gather, is_ragged, leaves
from eunoe.core.flat_model import FlatModel


def some() -> Ragged:
    return Ragged(torch.tensor([5, 6, 7, 8, 9, 10]), torch.tensor([0, 2, 2, 3, 6]), padding=-1)


def test_a_batch_is_padded_to_its_longest() -> None:
    assert gather(some(), torch.tensor([0, 2])).tolist() == [[5, 6], [7, -1]]
    assert gather(some(), torch.tensor([3, 1, 0])).tolist() == [[8, 9, 10], [-1, -1, -1], [5, 6, -1]]
    assert gather(some(), torch.tensor([1])).shape == (1, 0)


def test_samples_may_have_inner_dimensions() -> None:
    ragged = Ragged.of([torch.ones(1, 2), torch.full((3, 2), 2.0)])
    batch = gather(ragged, torch.tensor([0, 1]))
    assert batch.tolist() == [[[1, 1], [0, 0], [0, 0]], [[2, 2]] * 3]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=8), st.data())
def test_parts_of_ragged_samples(lengths: list[int], data: st.DataObject) -> None:
    samples = [torch.arange(n) + 10 * i for i, n in enumerate(lengths)]
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1))
    part = Ragged.of(samples)[torch.tensor(rows)]
    assert len(part) == len(rows)
    for i, row in enumerate(rows):
        assert part.values[part.offsets[i] : part.offsets[i + 1]].tolist() == samples[row].tolist()
    assert [len(some()[:3]), len(some()[torch.tensor([True, False, True, False])])] == [3, 2]


def test_fields_are_cut_and_moved_together() -> None:
    stored = Fields([some(), torch.arange(8.0).view(4, 2)], ["ids", "numbers"])
    batch = gather(stored, torch.tensor([0, 2, 3]))
    assert isinstance(batch, Fields)
    assert (len(batch), batch.names) == (3, ("ids", "numbers"))
    first, second = batch.split([1, 2])
    assert first.values[0].tolist() == [[5, 6, -1]]
    assert second.values[1].tolist() == [[4, 5], [6, 7]]
    assert batch[1:].values[0].tolist() == second.values[0].tolist()
    assert [one.values[1].tolist() for one in batch] == [[0, 1], [4, 5], [6, 7]]
    assert gather(stored, torch.arange(4)).unflatten(0, (2, 2)).values[1].shape == (2, 2, 2)
    assert stored[torch.tensor([3])].values[0].values.tolist() == [8, 9, 10]
    assert len(leaves(stored)) == 3
    assert is_ragged(stored)
    assert not is_ragged(batch)


def test_vmap_sees_the_fields() -> None:
    batch = Fields([torch.arange(6.0).view(2, 3), torch.tensor([1.0, 2.0])], ["a", "b"])
    doubled = vmap(lambda x: x.map(lambda value: 2 * value))(batch)
    assert doubled.values[1].tolist() == [2, 4]
    assert vmap(lambda x: (x.values[0] * x.values[1]).sum())(batch).tolist() == [3, 24]


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        (torch.zeros(2, 3, 4), "float32 [3, 4]"),
        (some(), "int64 [any] padded with -1"),
        (Ragged.of([torch.zeros(1, 2)]), "float32 [any, 2]"),
        (Fields([torch.zeros(2, 3), torch.zeros(2).long()], ["a", "b"]), "{a: float32 [3], b: int64 []}"),
        (Fields([torch.zeros(2, 3)]), "(float32 [3])"),
    ],
)
def test_in_words(stored: torch.Tensor | Ragged | Fields, says: str) -> None:
    assert describe_input(stored) == says


def test_inputs_from_plain_containers() -> None:
    x = torch.zeros(2)
    assert as_input(x) is x
    named, numbered = as_input({"a": x}), as_input((x, x))
    assert isinstance(named, Fields)
    assert isinstance(numbered, Fields)
    assert (named.labels, numbered.labels) == (("a",), ("0", "1"))
    assert np.shape(named.values) == (1, 2)


def test_rows_on_the_cpu_choose_samples_on_another_device() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        batch = gather(torch.empty(5, 3, device="cuda"), torch.tensor([1, 4]))
        assert isinstance(batch, torch.Tensor)
        assert (batch.device.type, batch.shape) == ("cuda", (2, 3))


A, B = torch.ones(2, 3), torch.full((2, 3), 2.0)
NAMED, NUMBERED = Fields([A, B], ["a", "b"]), Fields([A, B])


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))


class Each(Base):
    def forward(self, b: Tensor, a: Tensor, unused: Tensor | None = None) -> Tensor:
        return self.scale * (b - a)


class Anything(Base):
    def forward(self, *args: Tensor, **named: Tensor) -> Any:
        x = [*args, *named.values()]
        return SimpleNamespace(logits=self.scale * (x[1] - x[0]), loss=None)


class Whole(Base):
    def forward(self, x: Any) -> Any:
        a, b = (x["a"], x["b"]) if isinstance(x, dict) else x
        return self.scale * (b - a)


def test_fields_are_passed_as_the_module_takes_them() -> None:
    for module, x, expected in (
        (Each(), NAMED, B - A),
        (Each(), NUMBERED, A - B),
        (Anything(), NAMED, B - A),
        (Anything(), NUMBERED, B - A),
        (Whole(), NAMED, B - A),
        (Whole(), NUMBERED, B - A),
    ):
        assert torch.equal(call(module, x), expected)
        model = FlatModel(module)
        assert torch.equal(model.forward(x), expected)
        assert torch.equal(model.forward_at(torch.tensor([2.0]), x), 2 * expected)


def test_tensors_are_passed_as_they_are() -> None:
    assert torch.equal(call(nn.Identity(), A), A)
    found = call(Anything(), Fields([A, B]))
    assert isinstance(found, Tensor)
