"""How runs are going, on a terminal and without one."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from eunoe.report import progress
from eunoe.report.progress import Bars, describe, progress_bar


def record(round: int, **more: Any) -> dict[str, Any]:
    return {"round": round, "dropped": [], **more}


def test_a_round_in_a_few_words() -> None:
    both = record(1, test={"accuracy": 0.5}, validation={"accuracy": 0.9}, forgetting={"round": 0.25})
    assert describe(both) == "accuracy 0.500 forgotten 0.250"
    assert describe(record(1, validation={"accuracy": 0.9}, forgetting={"round": None})) == "accuracy 0.900"
    assert describe(record(1)) == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_names_are_shown_verbatim_and_drops_are_reported(terminal: bool) -> None:
    text = io.StringIO()
    with Bars(Console(file=text, force_terminal=terminal, width=150)) as bars:
        bars.start("key", "a [/b] [red]{name}", 2)
        bars.update("key", record(1))
        bars.update(
            "key", record(2, test={"accuracy": 0.5}, dropped=[{"client": 7, "reason": "its [x] is bad"}])
        )
    shown = re.sub(r"\x1b\[[0-9;]*m", "", text.getvalue())
    assert "a [/b] [red]{name}" in shown
    assert "round 2: client 7 dropped: its [x] is bad" in shown
    assert "accuracy 0.500" in shown


@pytest.mark.parametrize(
    ("console", "wanted", "shown"),
    [
        ({"force_terminal": True}, None, True),
        ({"force_jupyter": False, "force_terminal": False}, None, False),
        ({"force_terminal": True}, False, False),
        ({"force_terminal": False}, True, True),
    ],
    ids=["terminal", "file", "not wanted", "wanted"],
)
def test_a_bar_is_shown_where_it_can_move_or_is_wanted(
    monkeypatch: pytest.MonkeyPatch, console: dict[str, bool], wanted: bool | None, shown: bool
) -> None:
    text, called = io.StringIO(), list[int]()
    monkeypatch.setattr(progress, "Console", lambda: Console(file=text, width=150, **console))
    with progress_bar("my run", 1, lambda record: called.append(record["round"]), wanted) as follow:
        follow(record(1, test={"accuracy": 0.5}))
    assert called == [1]
    assert ("my run" in text.getvalue()) == shown
