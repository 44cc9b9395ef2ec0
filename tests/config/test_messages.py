"""What pydantic found wrong, in one line."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from eunoe.config.messages import explain, explain_in, sections_of
from eunoe.config.options import Options


class Inner(Options):
    width: int | tuple[int, int] = 1


class Outer(Options):
    inner: Inner | None = None
    several: tuple[Inner, ...] = ()


def wrong(model: type[BaseModel], values: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(values)
    return caught.value


@pytest.mark.parametrize(
    ("values", "says"),
    [
        # The members of a union are no part of the place.
        (
            {"inner": {"width": "x"}},
            "inner.width: input should be a valid integer, unable to parse string as an ",
        ),
        ({"inner": 3}, "inner: input should be a section of options (not 3)"),
        ({"several": 3}, "several: input should be a list (not 3)"),
    ],
)
def test_the_place_and_what_is_wrong(values: Any, says: str) -> None:
    assert explain(wrong(Outer, values)).startswith(says)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"iner": {}}, "there is no 'iner'; did you mean 'inner'?"),
        ({"inner": {"widht": 1}}, "there is no 'widht' in [inner]; did you mean 'width'?"),
        ({"several": [{"widht": 1}]}, "there is no 'widht' in [several.0]; did you mean 'width'?"),
    ],
)
def test_an_unknown_key_and_the_nearest_known_one(values: Any, says: str) -> None:
    assert explain_in(Outer, wrong(Outer, values)) == says


def test_sections_are_found_inside_other_types() -> None:
    assert sections_of(Inner) == sections_of(Inner | None) == sections_of(tuple[Inner, ...]) == [Inner]
    assert sections_of(int) == []
