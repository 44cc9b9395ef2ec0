"""What every group of options refuses."""

import pytest
from pydantic import Field, ValidationError

from eunoe.config.options import Finite, Options, Whole


class Some(Options):
    number: float = 1.0
    finite: Finite = 1.0
    pair: int | tuple[int, int] = 1
    switch: bool = False
    share: Finite = Field(0.5, ge=0, le=1)
    count: Whole = Field(1, ge=0, le=9)


def test_options_are_frozen_and_equal_by_value() -> None:
    assert Some(number=2) == Some(number=2.0)
    with pytest.raises(ValidationError, match="frozen"):
        Some().number = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"nmber": 1}, "Extra inputs are not permitted"),
        ({"number": True}, "it must be a number, not true"),
        ({"pair": False}, "it must be a number, not false"),
        ({"finite": float("inf")}, "finite number"),
        ({"finite": -2e38}, "between -1e38 and 1e38"),
        ({"share": 1.5}, "less than or equal to 1"),
        ({"share": -0.5}, "greater than or equal to 0"),
        ({"count": 10}, "less than or equal to 9"),
    ],
)
def test_what_is_refused(values: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Some.model_validate(values)


def test_a_switch_takes_true() -> None:
    assert Some(switch=True).switch
