"""What pydantic found wrong, in one line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, PositiveInt, ValidationError

from eunoe.config.messages import explain, explain_in, sections_of, type_name
from eunoe.config.options import Options, Split


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
        ({"width": 1}, "there is no 'width'; did you mean 'inner.width' or 'several.width'?"),
        ({"several": [{"widht": 1}]}, "there is no 'widht' in [several.0]; did you mean 'width'?"),
    ],
)
def test_an_unknown_key_and_the_nearest_known_one(values: Any, says: str) -> None:
    assert explain_in(Outer, wrong(Outer, values)) == says


def test_sections_are_found_inside_other_types() -> None:
    assert sections_of(Inner) == sections_of(Inner | None) == sections_of(tuple[Inner, ...]) == [Inner]
    assert sections_of(int) == []


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (bool, "true or false"),
        (int | None, "an integer"),
        (Annotated[float, Field(ge=0)], "a number"),
        (Path, "a path"),
        (Literal["a", "b"], "one of a, b"),
        (int | tuple[int, int], "an integer or a list of 2 integers"),
        (str | tuple[str, ...], "text or a list of texts"),
        (Sequence[PositiveInt], "a list of integers"),
        (tuple[Annotated[float, Field(ge=0)], ...], "a list of numbers"),
        (list[list[int]], "a list of lists of integers"),
        (tuple[Literal["a", "b"], ...], "a list of each one of a, b"),
        (Split | None, "a section"),
        (tuple[Split, ...], "a list of sections"),
        (dict[str, int], "a section"),
        (object, "a value"),
        (Any, "a value"),
    ],
)
def test_a_type_in_words(annotation: Any, says: str) -> None:
    assert type_name(annotation) == says
