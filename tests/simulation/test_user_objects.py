"""User-provided objects: separated from names, and mistakes reported in one line."""

from typing import Any

import pytest
import torch

import eunoe
from eunoe.errors import InputError
from eunoe.losses.cross_entropy import CrossEntropy
from eunoe.simulation.user_objects import split_user_objects
from tests.helpers import blobs


def test_objects_are_separated_from_names() -> None:
    loss, federation = CrossEntropy(), blobs()
    objects, plain = split_user_objects(federation, {"loss": loss, "method": "fedprox", "rounds": 3})
    assert (objects.loss, objects.federation, objects.method) == (loss, federation, None)
    assert plain == {
        "loss": {"name": "given:CrossEntropy"},
        "method": "fedprox",
        "rounds": 3,
        "data": {"name": "given"},
        "partition": {"name": "given"},
    }


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"federation": "x.npz"}, r"federation cannot be a path: use data='x.npz'"),
        ({"federation": [1]}, r"federation cannot be a list: use eunoe.Federation.from_arrays"),
        (
            {"loss": torch.nn.CrossEntropyLoss()},
            r"use 'ce', or derive from eunoe.losses.Loss",
        ),
        (
            {"loss": CrossEntropy},
            r"loss is a class: pass an instance, as in CrossEntropy\(...\)",
        ),
        (
            {"loss": lambda logits, y: 0.0},
            r"loss must be a name, a section or .*, not a function",
        ),
        ({"model": torch.nn.Linear}, r"model is a class: pass an instance"),
        ({"method": print}, r"method must be a name, .*, not a builtin_function_or_method"),
    ],
)
def test_mistakes_are_one_line(values: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        eunoe.run(rounds=1, **values)
    assert len(str(caught.value).splitlines()) == 1
