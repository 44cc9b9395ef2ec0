"""`eunoe papers` and `eunoe reproduce` as a user types them."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from eunoe.cli.app import app
from eunoe.cli.papers import duration
from eunoe.errors import InputError
from eunoe.papers import recipes
from eunoe.papers.reproduce import Choice
from tests.papers.made_up import write_run

runner = CliRunner()


def test_papers_lists_every_recipe(tmp_path: Path) -> None:
    shown = runner.invoke(app, ["papers", "--out", str(tmp_path)])
    assert shown.exit_code == 0
    for name in recipes():
        assert name in shown.output


def test_papers_shows_one_with_its_numbers_and_notes() -> None:
    shown = runner.invoke(app, ["papers", "wsm-table4"]).output
    for text in ("0.858 ± 0.003", "0.742 ± 0.004 (doubtful)", "slips of copying", "claim tested"):
        assert text in shown


@pytest.mark.parametrize(
    "arguments", [["wsm-table99"], ["wsm-fig2", "--scale", "tiny"], ["wsm-fig2", "--seeds", "a"]]
)
def test_mistakes_are_input_errors(arguments: list[str]) -> None:
    assert isinstance(runner.invoke(app, ["reproduce", *arguments]).exception, InputError)


def test_what_was_run_is_shown_without_running_anything(tmp_path: Path) -> None:
    nothing = runner.invoke(app, ["reproduce", "fednova-identity", "--report", "--out", str(tmp_path)])
    assert isinstance(nothing.exception, InputError)
    choice = Choice(recipes()["fednova-identity"], "small", tmp_path)
    write_run(choice, choice.runs()[0], {1: 0.1, 2: 0.2})
    shown = runner.invoke(
        app, ["reproduce", "fednova-identity", "--scale", "small", "--report", "--out", str(tmp_path)]
    )
    assert shown.exit_code == 0, shown.exception
    for text in ("2 of 8", "stopped early after 2 of 8 rounds: cifar10 equal fedavg", "SMALL SCALE"):
        assert text in shown.output
    listed = runner.invoke(app, ["papers", "fednova-identity", "--out", str(tmp_path)]).output
    assert "run so far: 0 of 12, 1 in part" in listed


def test_durations() -> None:
    assert [duration(seconds) for seconds in (12, 90, 7200, 36000, 2e6)] == [
        "12 s",
        "1.5 min",
        "2.0 h",
        "10 h",
        "23 d",
    ]
