"""The search for the best value of a number."""

import math
from pathlib import Path
from typing import Any

import pytest

from eunoe.errors import InputError
from eunoe.runs import tuning
from eunoe.runs.run import Run, run
from eunoe.runs.tuning import search
from tests.runs.small_runs import BRIEF


def search_on(curve: Any, monkeypatch: pytest.MonkeyPatch, start: float) -> tuple[float, list[float]]:
    """The search over a made-up curve of scores; what it found and what it tried, in order."""
    tried: list[float] = []

    def made_up(values: Any, over: Any, seeds: Any, *_: Any) -> list[float]:
        ((value,),) = over.values()
        tried.append(value)
        return [value] * len(seeds)

    monkeypatch.setattr(tuning, "sweep", made_up)
    monkeypatch.setattr(tuning, "_score", curve)
    best, scores = search({}, "training.lr", start, [0, 1], Path("none"))
    assert list(scores) == sorted(tried)
    return best, tried


def test_the_search_goes_by_tens_until_the_best_is_inside_then_by_twos(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    best, tried = search_on(lambda lr: -abs(math.log(lr / 0.03)), monkeypatch, 10.0)
    assert tried == [10.0, 1.0, 100.0, 0.1, 0.01, 0.001, 0.005, 0.02, 0.04, 0.08]
    assert best == 0.04


def test_a_best_at_the_start_needs_its_neighbors_only(monkeypatch: pytest.MonkeyPatch) -> None:
    best, tried = search_on(lambda lr: 1.0 if lr == 0.5 else 0.0, monkeypatch, 0.5)
    assert best == 0.5
    assert tried == [0.5, 0.05, 5.0, 0.25, 1.0]


def test_a_search_without_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    best, tried = search_on(lambda lr: lr, monkeypatch, 1.0)
    assert best == max(tried)
    assert len(tried) < 40


def test_a_search_on_real_runs_takes_validation_and_never_the_test_set(tmp_path: Path) -> None:
    values = {**BRIEF, "rounds": 3, "evaluation": {"every": 0, "last": 1, "test": False}}
    best, scores = search(values, "training.lr", 0.1, [0], tmp_path)
    assert best in scores
    assert scores[best] == max(scores.values())
    for value, score in scores.items():
        done = Run(tmp_path / f"training.lr={value}" / "seed-0")
        assert score == done.final("validation.accuracy")
        assert "test" not in done.records[-1]


def test_with_a_target_the_fewest_rounds_win(tmp_path: Path) -> None:
    values = {**BRIEF, "rounds": 3, "evaluation": {"every": 1}}
    early, never = (
        run({**values, "stop": {"target": target}}, out=tmp_path / str(target)) for target in (0.01, 1.0)
    )
    assert tuning._score(early) == -1.0
    assert tuning._score(never) == -1e6 + never.final("validation.accuracy")


def test_a_search_needs_a_start_and_something_to_go_by(tmp_path: Path) -> None:
    for start in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="starts from a number above 0"):
            search(BRIEF, "training.lr", start, [0], tmp_path / "out")
    with pytest.raises(InputError, match="needs the accuracy on validation data"):
        search({**BRIEF, "evaluation": {"every": 0, "last": 0}}, "training.lr", 0.1, [0], tmp_path / "out")
