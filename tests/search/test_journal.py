"""The journal of a search."""

from pathlib import Path

import pytest

from eunoe.errors import InputError
from eunoe.search.journal import Journal, Scores


def test_what_is_written_is_read_again_and_a_torn_line_is_dropped(tmp_path: Path) -> None:
    path, plan = tmp_path / "new" / "journal.jsonl", {"seeds": (0, 1)}
    journal = Journal(path, plan)
    journal.add_trial(0, "loss=wsm", {"loss.name": "wsm"})
    journal.add_trial(0, "another", {})
    journal.add_scores(0, 15, Scores(0.5, float("nan"), 2.0))
    journal.note(spent=3.5)
    with open(path, "a") as file:
        file.write('{"trial": 0, "rou')
    again = Journal(path, plan)
    assert again.settings == {0: {"loss.name": "wsm"}}
    assert again.labels == {0: "loss=wsm"}
    assert list(again.scores) == [(0, 15)]
    assert again.scores[0, 15].accuracy == 0.5
    assert again.spent == 3.5
    again.note(spent=4.0)
    assert Journal(path, plan).spent == 4.0


def test_another_plan_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "journal.jsonl", {"seeds": [0], "over": 1})
    with pytest.raises(InputError, match="has a search with a different seeds: use the same"):
        Journal(tmp_path / "journal.jsonl", {"seeds": [1], "over": 1})
