"""The journal of a search."""

import json
from pathlib import Path

import pytest

from eunoe.errors import Damaged, InputError
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


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"trial": 0, "label": "a"}, "has no 'settings'"),
        ({"trial": 0, "label": "a", "settings": 5}, "settings: input should be"),
        ({"rounds": 3, "accuracy": 0.5}, "has no 'trial'"),
        ({"trial": 0, "rounds": 3, "accuracy": [1]}, "accuracy: input should be a valid number"),
        ({"steps": [["try"]]}, "steps.0: list should have at least 2 items"),
        ({"winner": "a"}, "winner: input should be a valid integer"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, line: dict[str, object], says: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(f'{{"plan": {{}}}}\n{json.dumps(line)}\n')
    with pytest.raises(Damaged, match=rf"line 2 of .*journal\.jsonl:? {says}"):
        Journal(path, {})
