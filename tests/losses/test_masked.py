"""Zeros in place of absent classes' logits stay in the denominator."""

import math

import pytest
import torch

from eunoe.losses.masked import Masked
from tests.losses.helpers import value_and_gradient


def test_a_client_with_one_class_learns_against_the_zeros() -> None:
    logits, counts = torch.tensor([[1.0, 50.0, -9.0]]).double(), torch.tensor([4.0, 0.0, 0.0]).double()
    value, gradient = value_and_gradient(Masked(), logits, torch.tensor([0]), counts)
    share = math.e / (math.e + 2)
    assert value.item() == pytest.approx(-math.log(share))
    assert gradient[0].tolist() == pytest.approx([share - 1, 0, 0])
    assert Masked().learns_from(counts)
    assert not Masked(mask_value="minus_infinity").learns_from(counts)
