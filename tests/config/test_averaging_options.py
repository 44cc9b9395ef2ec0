"""The options of averaging global models."""

import pytest

from eunoe.config.averaging_options import Averaging
from eunoe.config.schema import make_config
from eunoe.errors import InputError


@pytest.mark.parametrize(
    "values", [{}, {"decay": 0.9, "last": 3}, {"decay": 1.0}, {"decay": -0.1}, {"last": 0}, {"decay": True}]
)
def test_it_takes_a_decay_below_1_or_a_number_of_models(values: dict[str, object]) -> None:
    with pytest.raises(InputError, match="averaging"):
        make_config({"averaging": values})


def test_it_is_off_by_default_and_in_the_title_when_on() -> None:
    assert make_config({}).averaging is None
    assert make_config({"averaging": {"last": 3}}).title == "fedavg + averaging · ce"


def test_the_share_of_the_newest_model_by_hand() -> None:
    # With 1/2: 1, then (1/2) / (3/4), then (1/2) / (7/8).
    assert [Averaging(decay=0.5).share(models) for models in (1, 2, 3)] == pytest.approx([1, 2 / 3, 4 / 7])
    assert Averaging(decay=0.0).share(7) == 1.0
