"""Sums in fixed point: exact, independent of order, never beyond 64 bits."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eunoe.errors import InputError
from eunoe.server.secure_sum import Entry, FixedPoint, OutOfBound


def test_numbers_worked_by_hand():
    # 2^63 / 4 clients = 2^61; a bound of 8 with 2 samples is 2^4, so 57 digits would be 2^61 itself: 56.
    fixed = FixedPoint({"a": Entry(2, "samples", 8.0), "n": Entry(1, "one", 5.0, True)}, 2, 4)
    assert fixed.digits == {"a": 56, "n": 0}
    sent = fixed.encode({"a": torch.tensor([0.5, -1.25]), "n": torch.tensor([3.0])}, 2)
    assert sent.tolist() == [2**56, -5 * 2**55, 3]
    back = fixed.decode(sent + sent)
    assert back["a"].tolist() == [2.0, -5.0]
    assert back["n"].tolist() == [6.0]


bounds = st.floats(1e-3, 1e6)


@given(bounds, st.integers(1, 10**6), st.integers(1, 10**4))
def test_the_largest_values_of_the_most_clients_do_not_overflow(bound, samples, clients):
    fixed = FixedPoint({"a": Entry(1, "samples", bound)}, samples, clients)
    largest = int(fixed.encode({"a": torch.tensor([bound], dtype=torch.float64)}, samples))
    assert 0 < largest * clients < 2**63
    # Twice as fine would be too fine.
    assert (2 * bound * samples * 2.0 ** fixed.digits["a"] * (1 + 1e-12) + 2) * clients >= 2**63


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20), st.randoms())
def test_sums_do_not_depend_on_order_and_are_as_exact_as_the_rounding(values, random):
    fixed = FixedPoint({"a": Entry(1, "one", 100.0)}, 1, len(values))
    sent = [fixed.encode({"a": torch.tensor([value], dtype=torch.float64)}, 1) for value in values]
    total = sum(sent, fixed.zeros())
    random.shuffle(sent)
    assert torch.equal(sum(sent, fixed.zeros()), total)
    unit = 2.0 ** -fixed.digits["a"]
    error = len(values) * unit + 1e-13 * sum(abs(value) for value in values)
    assert abs(float(fixed.decode(total)["a"]) - math.fsum(values)) <= error


@pytest.mark.parametrize(
    ("value", "samples", "message"),
    [
        (float("nan"), 1, "its a vector is not finite"),
        (float("-inf"), 1, "its a vector is not finite"),
        (-8.5, 1, "has a value of 8.5, beyond the bound of 8 of secure_aggregation"),
        (1.0, 3, "it has 3 samples, more than secure_aggregation.max_samples = 2"),
    ],
)
def test_a_client_does_not_send_what_would_spoil_the_sum(value, samples, message):
    fixed = FixedPoint({"a_vector": Entry(2, "samples", 8.0)}, 2, 4)
    with pytest.raises(OutOfBound, match=message):
        fixed.encode({"a_vector": torch.tensor([0.0, value])}, samples)


def test_a_bound_that_leaves_no_precision_is_refused():
    with pytest.raises(
        InputError, match="a bound of 1e\\+12 for 'a' with 100 clients of up to 10000 samples"
    ):
        FixedPoint({"a": Entry(1, "samples", 1e12)}, 10_000, 100)
