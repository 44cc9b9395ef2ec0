"""The search for settings: lists, ranges, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from eunoe.config.settings import read_config
from eunoe.errors import InputError
from eunoe.search.halving import Callbacks
from eunoe.search.tune import Range, parse_range, tune
from eunoe.simulation.many import Planned
from tests.small_runs import NAMED

optuna = pytest.importorskip("optuna")
SPACE = {"training.lr": Range(1e-4, 0.3, log=True), "loss.name": ["ce", "wsm"]}


def asked(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return [line["settings"] for line in lines if "settings" in line]


def test_ranges_as_they_are_written() -> None:
    assert parse_range("log:0.003..0.3") == Range(0.003, 0.3, log=True)
    assert parse_range("1..20") == Range(1, 20)
    assert Range(1, 20).whole
    assert not Range(1.0, 20).whole
    assert parse_range("ce") is None
    assert Range(0.1, 0.2).round(0.1234567) == 0.1235
    assert Range(0.12341, 0.2).round(0.12341) == 0.12341
    for wrong in ("1..x", "2..1", "log:0..1", "log:3", "1..inf"):
        with pytest.raises(InputError, match="range"):
            parse_range(wrong)


def test_lists_are_tried_as_their_product(tmp_path: Path) -> None:
    over = {"training.lr": [0.0001, 0.3], "loss.name": ["ce", "wsm"]}
    tuned = tune({**NAMED, "name": "mine"}, over, tmp_path / "out", seeds=[0])
    assert tuned.complete
    assert len(tuned.trials) == 4
    assert tuned.best.settings["training.lr"] == 0.3
    assert tuned.best.rounds == 4
    best = read_config(tuned.config)
    assert best["training"]["lr"] == 0.3
    assert best["evaluation"]["test"]
    assert best["rounds"] == 4


def test_ranges_are_sampled_by_trials_before_and_a_kill_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eunoe.search.tune.BATCH", 3)
    values = {**NAMED, "rounds": 1}
    whole = tune(values, SPACE, tmp_path / "whole", seeds=[0], trials=7)
    assert len(whole.trials) == 7
    rates = [settings["training.lr"] for settings in asked(tmp_path / "whole")]
    assert len(set(rates)) == 7
    assert all(1e-4 <= rate <= 0.3 for rate in rates)
    count = 0

    def die(planned: Planned, record: dict[str, Any] | None) -> None:
        nonlocal count
        count += record is not None
        if count == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(values, SPACE, tmp_path / "cut", seeds=[0], trials=7, callbacks=Callbacks(on_round=die))
    again = tune(values, SPACE, tmp_path / "cut", seeds=[0], trials=7)
    assert asked(tmp_path / "cut") == asked(tmp_path / "whole")
    reached = [[(one.label, one.accuracy) for one in tuned.trials] for tuned in (again, whole)]
    assert reached[0] == reached[1]
    assert again.config.read_text() == whole.config.read_text()


def test_the_budget_ends_it_and_more_goes_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the budget ended before the first result"):
        tune(NAMED, SPACE, tmp_path, seeds=[0], budget=1e-9)
    tuned = tune({**NAMED}, SPACE, tmp_path, seeds=[0], budget=1e9, trials=2)
    assert tuned.complete
    assert len(tuned.trials) == 2


@pytest.mark.parametrize(
    ("values", "over", "options", "says"),
    [
        ({}, {}, {}, "nothing to search over"),
        ({}, {"training.lr": Range(0.1, 1.0)}, {}, "needs --budget \\(such as 30m\\) or --trials"),
        ({}, {"loss.name": ["ce"]}, {"trials": 3}, "--trials applies to ranges only"),
        ({}, {"training.lr": Range(-1.0, 1.0)}, {"trials": 3}, "training.lr: input should be greater than 0"),
        ({}, {"loss.name": ["ce", "wms"]}, {}, "did you mean 'wsm'"),
        ({}, {"seed": [1, 2]}, {}, "cannot vary 'seed' with --over: use --seeds"),
        (
            {"split": {"validation": 0.0}},
            {"loss.name": ["ce"]},
            {},
            "set split.validation",
        ),
    ],
)
def test_bad_input(
    tmp_path: Path, values: dict[str, Any], over: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        tune({**NAMED, **values}, over, tmp_path / "out", seeds=[0], **options)
    assert not (tmp_path / "out").exists()


def test_without_optuna_a_range_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eunoe.search.tune.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"training.lr has a range, .*pip install '.*\[tune\]'"):
        tune(NAMED, SPACE, tmp_path / "out", seeds=[0], trials=2)


def test_another_search_in_the_folder_is_refused(tmp_path: Path) -> None:
    tune({**NAMED, "rounds": 1}, {"loss.name": ["ce"]}, tmp_path, seeds=[0])
    with pytest.raises(InputError, match="has a search with a different over"):
        tune({**NAMED, "rounds": 1}, {"loss.name": ["wsm"]}, tmp_path, seeds=[0])
