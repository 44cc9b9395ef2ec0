"""Mean, standard deviation and Student t intervals over seeds, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.analysis.statistics import deviation, is_number, mean, mean_std, paired_interval, student_interval


def test_mean_and_standard_deviation_over_seeds() -> None:
    # The deviation of a sample: 1, 2, 3 have 1.
    assert mean_std([1.0, 2.0, 3.0], 2) == "2.00 ± 1.00"
    assert mean_std([0.5], 3) == "0.500"
    assert mean_std([math.nan, 0.5], 1) == "0.5"
    assert mean_std([math.nan], 1) == mean_std([], 1) == "–"


def test_what_is_not_finite_is_left_out() -> None:
    assert mean([1.0, math.nan, 3.0, math.inf]) == 2.0
    assert deviation([1.0, math.nan, 3.0]) == pytest.approx(2**0.5)
    assert math.isnan(mean([]))
    assert deviation([4.0]) == 0.0


@pytest.mark.parametrize(("text", "number"), [("0.5 ± 0.1", True), ("–", True), ("NC", True), ("wsm", False)])
def test_cells_that_are_numbers(text: str, number: bool) -> None:
    assert is_number(text) == number


def test_the_interval_is_students_by_hand() -> None:
    gain = paired_interval([0.51, 0.62, 0.73], [0.50, 0.60, 0.70])
    # Differences 1, 2, 3 points: deviation 1, error 1 / sqrt(3), and t is 4.302653 with 2 degrees of freedom.
    assert gain.mean == pytest.approx(0.02)
    assert gain.low == pytest.approx(0.02 - 0.01 * 4.302653 / 3**0.5)
    assert gain.high == pytest.approx(0.02 + 0.01 * 4.302653 / 3**0.5)
    assert not gain.positive
    assert not gain.negative
    assert gain.points() == "+2.0 points [-0.5, 4.5]"
    assert gain.cell(3) == "+0.020 [-0.005, +0.045]"


def test_the_sign_is_that_of_the_whole_interval() -> None:
    assert paired_interval([0.6, 0.7, 0.8], [0.5, 0.61, 0.69]).positive
    assert paired_interval([0.5, 0.61, 0.69], [0.6, 0.7, 0.8]).negative
    same = paired_interval([0.5, 0.6], [0.5, 0.6])
    assert not same.positive
    assert not same.negative


def test_what_has_no_number_has_no_difference() -> None:
    gain = paired_interval([0.5, float("nan")], [0.5, 0.6])
    assert gain.cell(3) == "–"
    assert not gain.positive
    assert not gain.negative


def test_one_value_has_a_mean_and_no_interval() -> None:
    mean, low, high = student_interval([1.0])
    assert mean == 1.0
    assert math.isnan(low)
    assert math.isnan(high)
    assert math.isnan(student_interval([]).mean)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=15), st.floats(-1, 1))
def test_an_interval_moves_with_its_numbers(values: list[float], shift: float) -> None:
    mean, low, high = student_interval(values)
    assert low <= mean <= high
    moved = student_interval([value + shift for value in values])
    assert moved == pytest.approx((mean + shift, low + shift, high + shift), abs=1e-9)
