"""`eunoe papers` and `eunoe reproduce` as a user types them."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from eunoe.commands.papers import app, duration
from eunoe.errors import InputError
from eunoe.recipes import recipes

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


def test_durations() -> None:
    assert [duration(seconds) for seconds in (12, 90, 7200, 36000, 2e6)] == [
        "12 s",
        "1.5 min",
        "2.0 h",
        "10 h",
        "23 d",
    ]
