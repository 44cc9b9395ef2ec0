"""Slices of updates, and their sums."""

import torch
from hypothesis import given
from hypothesis import strategies as some

from eunoe.core.flat_model import Weights
from eunoe.engines.ray.packing import unpack
from eunoe.engines.ray.slices import concatenate_sums, cut, slice_rows, summed_vectors
from eunoe.methods.base import Method
from eunoe.methods.fednova import FedNova
from eunoe.server.aggregate import Sums
from eunoe.server.updates import Update


def weights(*values: float) -> Weights:
    return Weights(torch.tensor(values), torch.zeros(0), torch.zeros(0, dtype=torch.int64))


@given(some.integers(0, 700), some.integers(1, 9))
def test_the_parts_of_a_vector_are_the_vector(size: int, parts: int) -> None:
    vector = torch.arange(float(size))
    found = [cut(vector, part, parts) for part in range(parts)]
    assert torch.equal(torch.cat(found), vector)
    # But for the last one that is not empty, all are of one size, a multiple of 64.
    full = [len(part) for part in found if len(part)][:-1]
    assert len(set(full)) <= 1
    assert all(length % 64 == 0 for length in full)


def test_sums_of_slices_are_the_sum_to_the_bit() -> None:
    rng = torch.Generator().manual_seed(0)
    rows = [{"a": torch.randn(1001, generator=rng), "b": torch.randn(3, generator=rng)} for _ in range(50)]
    whole, parts = Sums(), [Sums() for _ in range(3)]
    for size, row in enumerate(rows, start=1):
        for name, value in row.items():
            whole.add(name, value, size / 7)
    for part, packed in zip(parts, slice_rows(rows, 3), strict=True):
        for name, values in unpack(packed).items():
            for size, value in enumerate(values, start=1):
                part.add(name, value, size / 7)
    totals, total_weights = concatenate_sums([(part.totals, part.weights) for part in parts])
    assert total_weights == whole.weights
    assert all(torch.equal(totals[name], whole.totals[name]) for name in ("a", "b"))


def test_no_rows_have_empty_slices() -> None:
    assert [unpack(part) for part in slice_rows([], 2)] == [{}, {}]


def test_a_method_that_adds_something_else_sends_that() -> None:
    start, update = weights(1.0, 1.0), Update(0, 1, weights(3.0, 5.0), {})
    assert summed_vectors(Method(), update, start)["parameters"] is update.weights.parameters
    update = Update(0, 1, weights(3.0, 5.0), {"work": torch.tensor([2.0])})
    found = summed_vectors(FedNova(), update, start)
    assert found["change"].tolist() == [1.0, 2.0]
    assert "parameters" not in found
