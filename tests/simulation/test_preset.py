"""The recommended preset of a run."""

from pathlib import Path

import pytest

import eunoe
from eunoe.config.settings import read_config
from eunoe.errors import InputError
from eunoe.simulation.preset import apply_preset
from tests.cli.command import eunoe as command

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
