"""Types of options in the words of a config file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, PositiveInt

from eunoe.config.data_options import Split
from eunoe.config.type_names import type_name


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
