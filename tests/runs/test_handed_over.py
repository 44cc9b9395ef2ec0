"""Objects of the user's own: told apart, and mistakes explained in a line."""

from typing import Any

import pytest
import torch

import eunoe
from eunoe.errors import InputError
from eunoe.losses.cross_entropy import CrossEntropy
from eunoe.runs.handed_over import handed_over
from tests.helpers import blobs


def test_objects_are_told_apart_from_names() -> None:
    loss, federation = CrossEntropy(), blobs()
    given, plain = handed_over(federation, {"loss": loss, "method": "fedprox", "rounds": 3})
    assert (given.loss, given.federation, given.method) == (loss, federation, None)
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
        ({"federation": "x.npz"}, r"federation is the path 'x.npz': name data to load as data='x.npz'"),
        ({"federation": [1]}, r"federation is a list: make one by eunoe.Federation.from_arrays"),
        (
            {"loss": torch.nn.CrossEntropyLoss()},
            r"loss 'ce' is cross-entropy; .* derive from eunoe.losses.Loss",
        ),
        (
            {"loss": CrossEntropy},
            r"loss is the class CrossEntropy: give an object, as in CrossEntropy\(...\)",
        ),
        (
            {"loss": lambda logits, y: 0.0},
            r"loss is a function: give a name, a section",
        ),
        ({"model": torch.nn.Linear}, r"model is the class Linear: give an object"),
        ({"method": print}, r"method is a builtin_function_or_method: give a name"),
    ],
)
def test_mistakes_are_one_line(values: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        eunoe.run(rounds=1, **values)
    assert len(str(caught.value).splitlines()) == 1
