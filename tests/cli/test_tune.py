"""`eunoe tune` as a user types it."""

from pathlib import Path

import pytest

from eunoe.config.settings import read_config
from tests.cli.command import eunoe
from tests.cli.test_run import CONFIG


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.toml").write_text(CONFIG)
    return tmp_path


def test_lists_and_ranges(here: Path) -> None:
    pytest.importorskip("optuna")
    arguments = ["tune", "c.toml", "--over", "loss.name=ce,wsm", "--over", "training.lr=log:0.001..0.3"]
    outcome = eunoe(*arguments, "--trials", 2, "--budget", "1h", "--jobs", 2)
    assert outcome.code == 0, outcome.error
    assert "best on validation: loss=" in outcome.out
    assert "eunoe run runs/c-tune/best.toml" in outcome.out
    best = read_config(here / "runs" / "c-tune" / "best.toml")
    assert 0.001 <= best["training"]["lr"] <= 0.3
    again = eunoe(*arguments, "--trials", 2)
    assert again.code == 0, again.error
    assert "to round" not in again.out
    assert again.out.splitlines()[-1] == outcome.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--over", "training.lr=log:0.1..0.01"],
            "the first number must be positive and less than",
        ),
        (["--over", "training.lr=0.1..x"], "invalid range '0.1..x': write it as 0.1..0.9"),
        (["--over", "training.lr=0.1..0.2"], "needs --budget (such as 30m) or --trials"),
        (["--over", "loss.name=ce,wsm", "--budget", "5"], "write it as 90s, 15m or 2h"),
        (["--over", "loss.name"], "write it as section.option=x,y"),
        (["--over", "loss.name=ce", "--set", "split.validation=0.0"], "set split.validation"),
    ],
)
def test_bad_input(here: Path, arguments: list[str], says: str) -> None:
    outcome = eunoe("tune", "c.toml", *arguments)
    assert outcome.code == 2, outcome
    assert says in outcome.error
    assert len(outcome.error.splitlines()) == 1
    assert [path.name for path in here.iterdir()] == ["c.toml"]
