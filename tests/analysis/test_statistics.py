"""Mean and standard deviation over seeds, by hand."""

import math

import pytest

from eunoe.analysis.statistics import deviation, is_number, mean, mean_std


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
