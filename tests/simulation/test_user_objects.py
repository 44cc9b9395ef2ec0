"""User-provided objects: separated from names, and mistakes reported in one line."""

from pathlib import Path
from typing import Any

import pytest
import torch

import eunoe
from eunoe.config.settings import read_config
from eunoe.errors import InputError
from eunoe.losses.cross_entropy import CrossEntropy
from eunoe.simulation.user_objects import apply_preset, split_user_objects
from tests.cli.command import eunoe as command
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


CONFIG = {
    "data": "digits",
    "rounds": 2,
    "participation": 3,
    "partition": {"name": "iid", "clients": 30},
    "training": {"lr": 0.3, "epochs": 1},
}


def test_the_preset_changes_method_averaging_and_rate() -> None:
    assert apply_preset(CONFIG) == CONFIG
    changed = apply_preset({**CONFIG, "preset": "recommended"})
    assert changed == {
        **CONFIG,
        "method": {"name": "fedacg", "momentum": 0.85},
        "averaging": {"decay": 0.8},
        "training": {"lr": 0.1, "epochs": 1},
    }
    with pytest.raises(InputError, match="there is no preset 'best': use 'recommended'"):
        apply_preset({"preset": "best"})


def test_a_run_keeps_the_values_that_the_preset_gave(tmp_path: Path) -> None:
    run = eunoe.run(CONFIG, preset="recommended", out=tmp_path / "run")
    assert (run.config.method.name, run.config.training.lr) == ("fedacg", 0.1)
    assert "preset" not in read_config(tmp_path / "run" / "config.toml")
    seeds = eunoe.run(CONFIG, preset="recommended", out=tmp_path / "seeds", seeds=[0])
    assert seeds[0].config.averaging == run.config.averaging
    done = command(
        "run", tmp_path / "run" / "config.toml", "--preset", "recommended", "--out", tmp_path / "b"
    )
    assert done.code == 0, done.error
    assert read_config(tmp_path / "b" / "config.toml")["training"]["lr"] == pytest.approx(0.03333)
    again = command("run", "--resume", tmp_path / "run", "--preset", "recommended")
    assert "--preset" in again.error
