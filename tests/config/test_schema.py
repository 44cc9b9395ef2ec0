"""The configuration: what it takes, what it refuses and how it says so."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from eunoe.config.schema import Config, make_config
from eunoe.errors import InputError


def test_a_name_may_stand_alone_and_options_alone_are_those_of_the_default() -> None:
    config = make_config(
        {"loss": "wsm", "engine": "serial", "partition": {"alpha": 0.3}, "public": {"data": "mnist"}}
    )
    assert (config.loss.name, config.loss.options) == ("wsm", {})
    assert config.engine.name == "serial"
    assert config.partition.options == {"clients": 20, "alpha": 0.3}
    assert config.public.data is not None
    assert config.public.data.name == "mnist"


def test_the_title_says_what_a_run_without_a_name_does() -> None:
    assert make_config({}).title == "fedavg · ce"
    assert make_config({"method": "fedadam", "loss": "wsm"}).title == "fedavg + adam · wsm"
    assert make_config({"method": "gma"}).title == "fedavg + gma · ce"
    assert make_config({"name": "mine"}).title == "mine"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"rouns": 3}, "there is no 'rouns'; did you mean 'rounds'?"),
        ({"training": {"lrr": 1}}, "there is no 'lrr' in [training]; did you mean 'lr'?"),
        ({"public": {"shar": 0.1}}, "there is no 'shar' in [public]; did you mean 'share'?"),
        ({"augment": {"flp": True}}, "did you mean 'flip'?"),
        ({"shift": {"kind": "noise", "strenth": 1}}, "in [shift]"),
        ({"probes": [{"metric": "drift", "evry": 1}]}, "did you mean 'every'?"),
        ({"training": {"lr": float("nan")}}, "training.lr: input should be a finite number (not nan)"),
        ({"training": {"lr": 0}}, "training.lr: input should be greater than 0"),
        ({"training": {"lr": "fast"}}, "training.lr: input should be a valid number"),
        ({"training": {"epochs": 0}}, "epochs must be 1 to"),
        ({"training": {"epochs": [3, 1]}}, "or a pair [min, max], not (3, 1)"),
        ({"training": {"epochs": 2.5}}, "training.epochs: input should be a valid integer"),
        ({"training": {"optimizer": "adam", "momentum": 0.9}}, "momentum is an option of sgd"),
        ({"training": 5}, "training: input should be a section of options"),
        ({"participation": 0}, "a share above 0.0 up to 1.0, or a number of clients, not 0"),
        ({"participation": 2.0}, "a share above 0.0 up to 1.0, or a number of clients, not 2.0"),
        ({"participation": float("nan")}, "participation: input should be a finite number"),
        ({"participation": "many"}, "participation: input should be a valid integer"),
        ({"rounds": 0}, "rounds: input should be greater than or equal to 1 (not 0)"),
        ({"rounds": True}, "rounds: must be a number, not true"),
        ({"participation": True}, "participation: must be a number, not true"),
        ({"training": {"lr": True}}, "training.lr: must be a number, not true"),
        ({"training": {"epochs": True}}, "training.epochs: must be a number, not true"),
        ({"stop": {"hours": False}}, "stop.hours: must be a number, not false"),
        ({"seed": -1}, "seed: input should be greater than or equal to 0"),
        ({"name": "\udcff"}, "has the unprintable character"),
        ({"data": {"name": "npz", "path": "a\udc80"}}, "has the unprintable character"),
        ({"method": 3}, "method: input should be a section of options"),
        ({"method": {"name": [1]}}, "method.name: input should be a valid string"),
        ({"split": {"validation": 0.6, "test": 0.4}}, "below 1 together"),
        ({"public": {"share": 0.1, "count": 3}}, "set only one of share, count and groups"),
        ({"public": {"balanced": True}}, "need a share or a count"),
        ({"public": {"data": "mnist", "alpha": 0.5}}, "need a share or a count"),
        ({"public": {"share": 0.1, "min_size": 5}}, "min_size needs groups"),
        ({"stop": {"target": 1.5}}, "stop.target: input should be less than or equal to 1"),
        ({"stop": {"target": 0.5}, "evaluation": {"validation": False}}, "stop.target needs evaluation"),
        (
            {"stop": {"test_target": 0.5}, "evaluation": {"every": 0, "last": 0}},
            "stop.test_target needs evaluation",
        ),
        ({"model": {"name": "mlp", "dtype": "float16"}}, "model.dtype: input should be 'float32' or"),
    ],
)
def test_impossible_values_are_reported_in_one_line(values: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        make_config(values)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_participants_are_a_share_or_a_number() -> None:
    assert make_config({"participation": 0.1}).participants(25) == 2
    assert make_config({"participation": 0.001}).participants(25) == 1
    assert make_config({"participation": 1.0}).participants(25) == 25
    assert make_config({"participation": 1}).participants(25) == 1
    with pytest.raises(InputError, match="participation=26 is more than the 25 clients"):
        make_config({"participation": 26}).participants(25)


def test_numpys_numbers_and_paths_are_taken_as_plain_values() -> None:
    config = make_config(
        {
            "seed": np.int64(3),
            "partition": {"name": "iid", "clients": np.int64(4)},
            "data": {"name": "npz", "path": Path("a.npz")},
            "model": {"name": "mlp", "hidden": (np.int32(8),)},
        }
    )
    assert config.model_dump(mode="json")["partition"] == {"name": "iid", "clients": 4}
    assert config.data.options == {"path": "a.npz"}
    assert config.model.options == {"hidden": [8]}


def test_every_field_has_a_sentence() -> None:
    def check(kind: Any) -> None:
        # A section may stand inside `X | None` or `tuple[X, ...]`.
        for inner in get_args(kind):
            check(inner)
        for name, field in getattr(kind, "model_fields", {}).items():
            if name != "name" or kind is Config:
                assert field.description, f"{kind.__name__}.{name}"
            check(field.annotation)

    check(Config)
