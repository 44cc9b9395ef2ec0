"""What is written as TOML reads back as it was."""

import math
import tomllib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eunoe.config.toml import to_toml

# A lone surrogate is no character and has no place in a file.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(texts, values, max_size=4))
def test_any_values_come_back(data: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(data)) == data


def test_special_numbers_and_nothing() -> None:
    back = tomllib.loads(to_toml({"a": math.inf, "b": -math.inf, "n": math.nan, "none": None, "t": (1, 2)}))
    assert math.isnan(back.pop("n"))
    assert back == {"a": math.inf, "b": -math.inf, "t": [1, 2]}


def test_numpy_floats_are_written_as_numbers() -> None:
    assert to_toml({"a": np.float64(0.1)}) == "a = 0.1\n"


def test_sections_come_after_plain_values() -> None:
    assert to_toml({"s": {"x": 1, "in": {"y": None, "z": "ä"}}, "p": True}) == (
        'p = true\n\n[s]\nx = 1\nin = {z = "ä"}\n'
    )
