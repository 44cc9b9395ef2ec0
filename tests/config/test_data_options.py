"""The options of the data: what fits together and what is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from eunoe.config.data_options import Augment, FeatureShift, Public, Split


@pytest.mark.parametrize(
    ("group", "values", "says"),
    [
        (Split, {"validation": 0.6, "test": 0.4}, "together below 1"),
        (Split, {"validation": -0.1}, "shares from 0"),
        (Public, {"share": 0.1, "count": 3}, "only one of share, count and groups"),
        (Public, {"groups": 2, "balanced": True}, "do not apply to whole groups"),
        (Public, {"count": 2, "balanced": True, "alpha": 1.0}, "only one of balanced and alpha"),
        (Public, {"alpha": 1.0}, "set a share or a count too"),
        (Public, {"share": 0.1, "min_size": 2}, "set groups too"),
        (FeatureShift, {"kind": "contrast", "strength": 11}, "at most 10 makes sense"),
        (FeatureShift, {"kind": "rotation", "strength": 181}, "less than or equal to 180"),
        (Augment, {"cutout": -1}, "greater than or equal to 0"),
    ],
)
def test_what_does_not_fit_together(group: Any, values: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        group(**values)


def test_a_public_set_has_a_size_if_one_is_given() -> None:
    assert [Public(**given).sized for given in ({}, {"share": 0.1}, {"count": 1}, {"groups": 1})] == [
        False,
        True,
        True,
        True,
    ]


def test_augmentation_is_active_if_anything_is_on() -> None:
    assert not Augment().active
    assert all(Augment(**given).active for given in ({"crop_padding": 1}, {"flip": True}, {"cutout": 2}))
