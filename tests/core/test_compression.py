"""Smaller forms of vectors, by hand and back."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.config.options import Compression
from eunoe.core.compression import compress_vector, part_bytes, part_sizes, restore_vector, scatter, support


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_topk_sends_the_new_values_of_the_entries_that_move_most() -> None:
    compression = Compression(name="topk", share=0.4)
    reference = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    move = torch.tensor([0.1, -3.0, 0.0, 0.2, 1.0], dtype=torch.float64)
    parts = compress_vector(compression, move, reference, rng())
    assert parts["indices"].tolist() == [1, 4]
    assert parts["values"].tolist() == [-1.0, 6.0]
    assert restore_vector(compression, parts, reference).tolist() == [1.0, -1.0, 3.0, 4.0, 6.0]
    # Two entries of 4 + 4 bytes.
    assert part_bytes(compression, 5, torch.float32) == 16


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_quantized_moves_are_within_a_step_and_right_on_average(bits: int, size: int) -> None:
    compression, generator = Compression(name="quantize", bits=bits), rng()
    reference = torch.zeros(size)
    move = torch.from_numpy(np.random.default_rng(1).normal(size=size))
    step = float(move.abs().max()) / (2 ** (bits - 1) - 1)
    forms = [compress_vector(compression, move, reference, generator) for _ in range(400)]
    found = torch.stack([restore_vector(compression, one, reference) for one in forms]).double()
    assert float((found - move).abs().max()) <= step * (1 + 1e-6)
    # The mean of 400 draws of a deviation of at most half a step.
    assert float((found.mean(0) - move).abs().max()) < 5 * 0.5 * step / 20
    parts = compress_vector(compression, move, reference, generator)
    sizes = {name: (len(part), part.dtype) for name, part in parts.items()}
    assert sizes == part_sizes(compression, size, torch.float32)
    assert part_bytes(compression, size, torch.float32) == math.ceil(size * bits / 8) + 8


def test_two_bits_are_minus_one_zero_and_one_times_the_largest_move() -> None:
    compression, zeros = Compression(name="quantize", bits=2), torch.zeros(5)
    move = torch.tensor([2.0, -2.0, 0.0, 2.0, 0.0], dtype=torch.float64)
    parts = compress_vector(compression, move, zeros, rng())
    # Codes 2, 0, 1, 2 and 1, from the lowest bits up.
    assert parts["codes"].tolist() == [2 + 0 * 4 + 1 * 16 + 2 * 64, 1]
    assert restore_vector(compression, parts, zeros).tolist() == move.tolist()
    nothing = compress_vector(compression, torch.zeros(5, dtype=torch.float64), zeros, rng())
    assert restore_vector(compression, nothing, zeros).tolist() == [0.0] * 5


@pytest.mark.parametrize("compression", [{"name": "topk", "share": 0.5}, {"name": "quantize", "bits": 4}])
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_what_is_not_finite_stays_so(compression: dict[str, Any], wrong: float) -> None:
    given, zeros = Compression(**compression), torch.zeros(4)
    move = torch.tensor([0.0, wrong, 1.0, 2.0], dtype=torch.float64)
    assert not torch.isfinite(restore_vector(given, compress_vector(given, move, zeros, rng()), zeros)).all()


def test_another_partys_parts_are_checked() -> None:
    values = torch.ones(2)
    for indices, message in (([-1, 2], "outside 0 to 4"), ([1, 5], "outside"), ([2, 2], "not increasing")):
        with pytest.raises(ValueError, match=message):
            scatter(torch.tensor(indices), values, torch.zeros(5))
    parts = {"codes": torch.tensor([3], dtype=torch.uint8), "scale": torch.ones(1)}
    with pytest.raises(ValueError, match="a code is 3, above 2"):
        restore_vector(Compression(name="quantize", bits=2), parts, torch.zeros(1))


def test_support_has_just_so_many_entries_and_all_that_are_not_zero() -> None:
    one, other = torch.tensor([0.0, 5.0, 0.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 0.0, torch.nan, 0.0])
    assert support([one, other], 3).tolist() == [0, 1, 3]
    assert support([one, other], 2).tolist() == [1, 3]
    with pytest.raises(ValueError, match="2 values are not 0, more than the 1"):
        support([one, other], 1)


@pytest.mark.parametrize("values", [{"name": "topk"}, {"name": "topk", "share": 0.1, "bits": 8}])
def test_topk_takes_a_share_alone(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="topk needs share"):
        Compression(**values)
    with pytest.raises(ValueError, match="quantize needs bits"):
        Compression(name="quantize", share=0.1)
