"""Keys of version 0.1: stored configs are read, new ones are refused with the new name."""

import pytest

from eunoe import InputError
from eunoe.config.renamed import rename_keys
from eunoe.config.schema import make_config


def test_stored_configs_get_the_new_names() -> None:
    stored: dict[str, object] = {"merge": {"name": "median"}, "seed": 1}
    stored["secure_aggregation"] = {"most_samples": 9}
    stored["engine"] = {"name": "ray", "summers": 4}
    assert rename_keys(stored) == {
        "aggregation": {"name": "median"},
        "secure_aggregation": {"max_samples": 9},
        "seed": 1,
        "engine": {"name": "ray"},
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"merge": "median"}, "'merge' is now 'aggregation'"),
        (
            {"secure_aggregation": {"most_samples": 9}},
            "'secure_aggregation.most_samples' is now 'secure_aggregation.max_samples'",
        ),
    ],
)
def test_other_configs_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_config(values)
