"""Budgets of time."""

import pytest

from eunoe.errors import InputError
from eunoe.search.budget import Clock, format_budget, parse_budget


def test_times_are_written_with_a_unit() -> None:
    assert [parse_budget(text) for text in ("90s", "15m", " 1.5h ", 20)] == [90, 900, 5400, 20]
    for wrong in ("15", "m", "-1m", "1d", ""):
        with pytest.raises(InputError, match=r"invalid budget .*: write it as 90s, 15m or 2h"):
            parse_budget(wrong)
    for wrong in ("0s", 0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="must be positive and finite"):
            parse_budget(wrong)


def test_a_written_time_is_never_shorter() -> None:
    assert [format_budget(seconds) for seconds in (0.2, 90, 119.5, 121, 3600)] == [
        "1s",
        "90s",
        "2m",
        "3m",
        "60m",
    ]


def test_what_was_spent_before_counts() -> None:
    assert Clock(10.0, spent=10.0).over
    assert not Clock(1000.0, spent=10.0).over
    assert not Clock(None, spent=1e9).over
