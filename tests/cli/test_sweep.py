"""`eunoe sweep` as a user types it."""

from pathlib import Path

import pytest

from eunoe.cli.sweep import split_values
from eunoe.config.settings import read_config
from tests.cli.command import eunoe
from tests.cli.test_run import CONFIG


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.toml").write_text(CONFIG)
    return tmp_path


def test_exact_runs_have_the_bits_of_the_serial_engine(here: Path) -> None:
    config = CONFIG.replace('engine = {name = "serial"}\n', "")
    (here / "c.toml").write_text(config)
    for folder, option in (("exact", ["--exact"]), ("serial", ["--engine", "serial"]), ("lockstep", [])):
        outcome = eunoe("sweep", "c.toml", "--seeds", "0,1", "--out", folder, "--set", "rounds=2", *option)
        assert outcome.code == 0, outcome.error
    records = {
        folder: [(here / folder / f"run/seed-{seed}/metrics.jsonl").read_bytes() for seed in (0, 1)]
        for folder in ("exact", "serial", "lockstep")
    }
    assert records["exact"] == records["serial"] != records["lockstep"]
    assert read_config(here / "lockstep/run/seed-0/config.toml")["engine"]["name"] == "vectorized"


def test_the_product_of_settings_and_seeds(here: Path) -> None:
    arguments = ["sweep", "c.toml", "--over", "loss.name=ce,wsm", "--seeds", "0,1", "--set", "rounds=2"]
    outcome = eunoe(*arguments)
    assert outcome.code == 0, outcome.error
    assert sorted(str(path.parent.relative_to(here)) for path in here.rglob("config.toml")) == [
        "runs/c/loss=ce/seed-0",
        "runs/c/loss=ce/seed-1",
        "runs/c/loss=wsm/seed-0",
        "runs/c/loss=wsm/seed-1",
    ]
    assert "loss=wsm" in outcome.out
    assert "±" in outcome.out
    assert "runs in runs/c" in outcome.out
    again = eunoe(*arguments)
    assert again.code == 0
    assert "round 2/2" not in again.out
    changed = eunoe(*arguments, "--set", "training.lr=0.5")
    assert changed.code == 2
    assert "training.lr is 0.05 in runs/c/loss=ce/seed-0 and cannot become 0.5" in changed.error


def test_the_seed_is_the_configs_unless_seeds_are_given(here: Path) -> None:
    (here / "c.toml").write_text("seed = 5\n" + CONFIG)
    short = ["sweep", "c.toml", "--set", "rounds=1"]
    for arguments in (short, [*short, "--set", "seed=7"], [*short, "--seeds", "1,2"]):
        assert eunoe(*arguments).code == 0
    seeds = {path.parent.name: read_config(path)["seed"] for path in here.rglob("config.toml")}
    assert seeds == {f"seed-{seed}": seed for seed in (1, 2, 5, 7)}


def test_warnings_are_printed(here: Path) -> None:
    outcome = eunoe("sweep", "c.toml", "--over", "method.name=fedavg,feddyn", "--set", "rounds=1")
    assert outcome.code == 0, outcome.error
    assert outcome.error.count("warning: ") == 1
    assert "warning: method=feddyn seed 0: feddyn may diverge without clipping" in outcome.error


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seeds", "a"], "must be integers separated by commas"),
        (["--seeds", ""], "must be integers separated by commas"),
        (["--seeds", "-1"], "seed: input should be greater than or equal to 0"),
        (["--over", "seed=1,2"], "cannot vary 'seed' with --over: use --seeds"),
        (["--over", " seed=1,2"], "cannot vary 'seed' with --over: use --seeds"),
        (["--over", "loss.name"], "write it as section.option=x,y"),
        (["--over", "loss.name="], "write it as section.option=x,y"),
        (["--over", "training.lr=0.1,nan"], "training.lr: input should be a finite number"),
        (["--over", "training.lrr=1"], "did you mean 'lr'?"),
        (["--over", "loss.name=wms"], "did you mean 'wsm'?"),
        (["--over", "loss.name=ce,,wsm"], "write it as section.option=x,y"),
    ],
)
def test_bad_input(here: Path, arguments: list[str], says: str) -> None:
    outcome = eunoe("sweep", "c.toml", *arguments)
    assert outcome.code == 2, outcome
    assert says in outcome.error
    assert len(outcome.error.splitlines()) == 1
    assert [path.name for path in here.iterdir()] == ["c.toml"]


def test_values_are_split_at_commas_outside_brackets_and_quotes() -> None:
    assert split_values('[1, 2],"a,b",{x = [3, 4]},c') == ["[1, 2]", '"a,b"', "{x = [3, 4]}", "c"]
    assert split_values("a") == ["a"]
