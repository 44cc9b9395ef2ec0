"""Groups of options: what fits together and what is refused."""

from typing import Any

import pytest
from pydantic import Field, ValidationError

from eunoe.config.options import (
    Augment,
    Averaging,
    FeatureShift,
    Finite,
    Options,
    Probe,
    Public,
    Split,
    Training,
    Whole,
)
from eunoe.config.schema import make_config
from eunoe.errors import InputError


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
        ({"number": True}, "must be a number, not true"),
        ({"pair": False}, "must be a number, not false"),
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


@pytest.mark.parametrize(
    ("group", "values", "says"),
    [
        (Split, {"validation": 0.6, "test": 0.4}, "below 1 together"),
        (Split, {"validation": -0.1}, "must be at least 0"),
        (Public, {"share": 0.1, "count": 3}, "only one of share, count and groups"),
        (Public, {"groups": 2, "balanced": True}, "do not apply to groups"),
        (Public, {"count": 2, "balanced": True, "alpha": 1.0}, "only one of balanced and alpha"),
        (Public, {"alpha": 1.0}, "need a share or a count"),
        (Public, {"share": 0.1, "min_size": 2}, "min_size needs groups"),
        (FeatureShift, {"kind": "contrast", "strength": 11}, "strength must be at most 10"),
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


def test_the_learning_rate_decays_from_round_1_on() -> None:
    training = Training(lr=0.8, lr_decay=0.5)
    assert [training.lr_in(round) for round in (1, 2, 4)] == [0.8, 0.4, 0.1]


def test_epochs_are_a_number_or_a_range() -> None:
    assert Training(epochs=3).epoch_range == (3, 3)
    assert Training(epochs=(1, 4)).epoch_range == (1, 4)
    for epochs in (0, (0, 2), (3, 1)):
        with pytest.raises(ValidationError, match="epochs must be 1 to"):
            Training(epochs=epochs)


def test_momentum_belongs_to_sgd() -> None:
    with pytest.raises(ValidationError, match="momentum is an option of sgd"):
        Training(optimizer="adam", momentum=0.5)


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


def test_rounds_are_a_list_every_so_many_or_fractions() -> None:
    probe = Probe(metric="drift", rounds=(3,), every=5, at=(0.01, 0.9))
    assert [round for round in range(1, 21) if probe.due(round, 20)] == [1, 3, 5, 10, 15, 18, 20]
