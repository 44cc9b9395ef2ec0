"""`eunoe papers` and `eunoe reproduce` as a user types them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eunoe.cli.app import app
from eunoe.config.schema import make_config
from eunoe.errors import InputError
from eunoe_papers.commands import duration
from eunoe_papers.loader import experiments
from tests.papers.made_up import store, write_run

runner = CliRunner()
EXPERIMENT = experiments()["fednova-identity"]
LINE = "cifar10 equal fedavg"


def test_papers_lists_every_experiment_in_a_hundred_columns() -> None:
    shown = subprocess.run([sys.executable, "-m", "eunoe", "papers"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    for name in experiments():
        assert f" {name} " in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100


def test_papers_shows_one_with_its_numbers_and_notes() -> None:
    shown = runner.invoke(app, ["papers", "wsm-table4"]).output
    for text in ("0.858 ± 0.003", "0.742 ± 0.004 (doubtful)", "slips of copying", "claim tested"):
        assert text in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["wsm-table99"],
        ["wsm-fig2", "--scale", "medium"],
        ["wsm-fig2", "--scale", "tiny"],
        ["wsm-fig2", "--seeds", "a"],
    ],
)
def test_mistakes_are_input_errors(arguments: list[str]) -> None:
    assert isinstance(runner.invoke(app, ["reproduce", *arguments]).exception, InputError)


def test_what_was_run_is_shown_without_running_or_writing_anything(tmp_path: Path) -> None:
    own, stored = tmp_path / "runs", tmp_path / "results"
    places = ["--out", str(own), "--results", str(stored)]
    report = ["reproduce", EXPERIMENT.name, "--report", *places]
    nothing = runner.invoke(app, report).exception
    assert isinstance(nothing, InputError)
    assert "no runs of fednova-identity in " in str(nothing)
    assert "stored results are in a clone of Eunoe" in str(nothing)
    for scale, accuracy in (("small", 0.2), ("full", 0.7)):
        (run,) = EXPERIMENT.plan("full" if scale == "full" else "small", [0], only=LINE, out=tmp_path / scale)
        write_run(run, {1: 0.1, 2: accuracy})
        store(EXPERIMENT, [run], stored)
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    shown = runner.invoke(app, report)
    assert shown.exit_code == 0, shown.exception
    for text in ("2 of 8", f"only 2 of 8 rounds: {LINE}", "SMALL SCALE", "2 of 20"):
        assert text in shown.output
    assert "2 of 20" not in runner.invoke(app, [*report, "--scale", "small"]).output
    listed = runner.invoke(app, ["papers", EXPERIMENT.name, *places]).output
    assert "run so far: 1/12" in listed
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == kept


def test_a_config_is_printed_to_save_and_edit() -> None:
    asked = ["reproduce", EXPERIMENT.name, "--print-config", "--seeds", "3"]
    printed = runner.invoke(app, [*asked, "--only", LINE])
    values = tomllib.loads(printed.stdout)
    config = make_config(values)
    assert (config.seed, config.rounds, config.title) == (3, 8, f"{LINE} (small)")
    several = runner.invoke(app, [*asked, "--scale", "full"])
    assert isinstance(several.exception, InputError)
    assert "prints one config, not 4" in str(several.exception)
    assert all(repr(str(arm.label)) in str(several.exception) for arm in EXPERIMENT.arms)
    assert not several.stdout


def test_hours_of_work_want_a_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["reproduce", "wsm-table3", "--scale", "full", "--out", str(tmp_path)]
    monkeypatch.setattr("eunoe_papers.reproduce.find_missing", lambda planned: {})
    refused = runner.invoke(app, asked).exception
    assert isinstance(refused, InputError)
    assert "of one core; add --yes to run it" in str(refused)
    assert not list(tmp_path.iterdir())
    ran: list[str] = []
    monkeypatch.setattr(
        "eunoe_papers.reproduce.execute", lambda runs, *_, **__: ran.extend(run.label for run in runs)
    )
    runner.invoke(app, [*asked, "--yes", "--only", LINE.replace(" equal", "")])
    assert ran == ["cifar10 fedavg"] * 3


def test_durations() -> None:
    assert [duration(seconds) for seconds in (12, 90, 7200, 36000, 2e6)] == [
        "12 s",
        "1.5 min",
        "2.0 h",
        "10 h",
        "23 d",
    ]
