"""Successive halving: which trials continue, resuming, and the end of the budget."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eunoe.config.schema import make_config
from eunoe.errors import InputError
from eunoe.search.cure_search import score_runs
from eunoe.search.halving import (
    Callbacks,
    Clock,
    Halving,
    Trial,
    accuracy_at,
    composed_privacy,
    format_budget,
    parse_budget,
    rungs_of,
    search_values,
)
from eunoe.search.journal import Journal
from eunoe.simulation.many import Planned
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from tests.small_runs import NAMED

VALUES = search_values({**NAMED, "rounds": 8}, make_config({**NAMED, "rounds": 8}))
# The larger the rate, up to 0.3, the better after 8 rounds.
RATES = (0.0001, 0.3, 0.001, 0.01)


def trials() -> list[Trial]:
    return [
        Trial(number, f"lr {lr}", {**VALUES, "training": {"epochs": 1, "lr": lr}})
        for number, lr in enumerate(RATES)
    ]


class Seen:
    def __init__(self, stop: int | None = None) -> None:
        self.stages: list[tuple[str, int]] = []
        self.rounds: list[tuple[str, int]] = []
        self.stop = stop

    def stage(self, title: str, rounds: int) -> None:
        self.stages.append((title, rounds))

    def round(self, planned: Planned, record: dict[str, Any] | None) -> None:
        if record is not None:
            self.rounds.append((planned.label, record["round"]))
            if len(self.rounds) == self.stop:
                raise KeyboardInterrupt


def halving(folder: Path, seen: Seen, budget: float | None = None) -> Halving:
    journal = Journal(folder / "journal.jsonl", {"plan": "this"})
    callbacks = Callbacks(seen.stage, seen.round)
    return Halving(folder, [0], rungs_of(8), 1, journal, Clock(budget, journal.spent), callbacks)


def test_the_better_half_goes_on_from_where_it_stopped(tmp_path: Path) -> None:
    seen, plan = Seen(), trials()
    made = halving(tmp_path, seen)
    assert rungs_of(8) == [2, 4, 8]
    assert made.run(plan)
    assert [rounds for _, rounds in seen.stages] == [8, 4, 4]
    (best,) = made.rank(plan, 8)
    assert best.number == 1
    # No round was trained twice, and the one that survived has the bits of a run without a stop.
    assert len(set(seen.rounds)) == len(seen.rounds) == 16
    whole = run(best.plan_run(tmp_path, 0, 8).config, out=tmp_path / "whole")
    halved = Run(best.plan_run(tmp_path, 0, 8).folder)
    assert halved.weights().parameters.equal(whole.weights().parameters)
    assert not any("test" in record for record in halved.records)


def test_with_samples_only_what_is_significantly_worse_is_dropped(tmp_path: Path) -> None:
    few = replace(halving(tmp_path / "few", Seen()), samples=1)
    assert few.run(trials())
    assert len([rounds for _, rounds in few.journal.scores if rounds == 8]) == 4
    # Three continue at least, and trial 0, with which all are compared.
    many = replace(halving(tmp_path / "many", Seen()), samples=10**6)
    assert many.run(trials())
    ended = {number for number, rounds in many.journal.scores if rounds == 8}
    assert {0, 1} <= ended
    assert len(ended) in (3, 4)


def test_later_trials_are_compared_with_those_that_ran_before(tmp_path: Path) -> None:
    plan = trials()
    made = replace(halving(tmp_path, Seen()), samples=10**6)
    best, *others = [plan[1], *[replace(plan[1], number=n, label=f"twin {n}") for n in (4, 5)]]
    assert made.run([best, *others])
    assert made.run([plan[2]], rivals=[best, *others])
    assert (2, 2) in made.journal.scores
    assert (2, 8) not in made.journal.scores


@pytest.mark.parametrize("stop", [1, 7, 11, 15])
def test_one_that_was_killed_goes_on_with_the_same_plan(tmp_path: Path, stop: int) -> None:
    whole = halving(tmp_path / "whole", Seen())
    whole.run(trials())
    with pytest.raises(KeyboardInterrupt):
        halving(tmp_path / "cut", Seen(stop)).run(trials())
    seen = Seen()
    again = halving(tmp_path / "cut", seen)
    assert again.run(trials())
    assert {key: it.accuracy for key, it in again.journal.scores.items()} == {
        key: it.accuracy for key, it in whole.journal.scores.items()
    }
    assert len(seen.rounds) <= 16 - stop + 1


def test_the_budget_ends_the_plan_and_more_of_it_goes_on(tmp_path: Path) -> None:
    made = halving(tmp_path, Seen(), budget=1e-9)
    assert not made.run(trials())
    assert not made.rank(trials(), 2)
    made = halving(tmp_path, Seen(), budget=1e9)
    assert made.run(trials())
    spent = halving(tmp_path, Seen(), budget=1e-9)
    assert spent.run(trials())
    assert spent.rank(trials(), 8)[0].number == 1


def test_a_stage_that_is_cut_short_promotes_nobody(tmp_path: Path) -> None:
    first = halving(tmp_path, Seen())
    assert first.run_stage(trials(), 2)

    class Late(Clock):
        calls = 0

        @property
        def over(self) -> bool:
            # After the first of the two survivors has come to its fourth round.
            self.calls += 1
            return self.calls > 5

    journal = Journal(tmp_path / "journal.jsonl", {"plan": "this"})
    made = Halving(tmp_path, [0], [2, 4, 8], 1, journal, Late(None))
    assert not made.run(trials())
    assert {rounds for _, rounds in journal.scores} == {2}


def test_one_that_diverges_comes_last(tmp_path: Path) -> None:
    plan = [Trial(0, "wild", {**VALUES, "training": {"lr": 1e38}}), Trial(1, "tame", VALUES)]
    made = halving(tmp_path, Seen())
    made.run(plan)
    assert made.journal.scores[0, 2].accuracy == 0
    assert made.rank(plan, 8)[0].number == 1


def test_the_accuracy_at_a_round_is_that_of_the_last_rounds_before_it(tmp_path: Path) -> None:
    done = run({**NAMED, "rounds": 8}, out=tmp_path / "run")
    values = done.series("validation.accuracy")[1]
    assert accuracy_at(done.read, 4) == pytest.approx(values[3])
    assert accuracy_at(done.read, 8) == pytest.approx(values[6:8].mean())


def test_a_run_that_averages_shows_what_its_newest_model_reached_too(tmp_path: Path) -> None:
    values = {**NAMED, "rounds": 4, "evaluation": {"judging": True}}
    plain = run(values, out=tmp_path / "plain")
    averaged = run({**values, "averaging": {"decay": 0.5}}, out=tmp_path / "averaged")
    alone, both = (score_runs([done.read], 4) for done in (plain, averaged))
    assert (both.newest_accuracy, both.newest_forgetting) == (alone.accuracy, alone.forgetting)
    assert both.accuracy != both.newest_accuracy
    assert both.best == max(both.accuracy, both.newest_accuracy)
    assert replace(both, newest_accuracy=math.nan).best == both.accuracy


def test_searched_runs_do_not_see_the_test_set() -> None:
    values = {**NAMED, "stop": {"test_target": 0.9}, "evaluation": {"last": 0, "every": 5, "personal": 3}}
    config = make_config(search_values(values, make_config(values)))
    assert not config.evaluation.test
    assert config.evaluation.validation
    assert (config.evaluation.every, config.evaluation.last, config.evaluation.personal) == (0, 1, 0)
    assert config.stop.test_target is None
    assert config.probes == ()


def test_private_runs_compose(tmp_path: Path) -> None:
    assert composed_privacy(tmp_path) == []
    for number, epsilon in enumerate((1.0, 2.5)):
        folder = tmp_path / "search" / f"{number}"
        folder.mkdir(parents=True)
        spent = {"epsilon": epsilon, "delta": 1e-5, "merges": 3}
        status = {"state": "finished", "round": 3, "reason": "", "seconds": 1.0, "privacy": spent}
        (folder / "status.json").write_text(json.dumps(status))
    (said,) = composed_privacy(tmp_path)
    assert "The 2 private runs" in said
    assert "epsilon = 3.5 at delta = 2e-05" in said
    (folder / "status.json").write_text(json.dumps({**status, "privacy": {**spent, "epsilon": None}}))
    assert "epsilon = inf" in composed_privacy(tmp_path)[0]


def test_times_are_written_with_a_unit() -> None:
    assert [parse_budget(text) for text in ("90s", "15m", " 1.5h ", 20)] == [90, 900, 5400, 20]
    for wrong in ("15", "m", "-1m", "1d", ""):
        with pytest.raises(InputError, match=r"invalid budget .*: write it as 90s, 15m or 2h"):
            parse_budget(wrong)
    for wrong in ("0s", 0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="must be positive and finite"):
            parse_budget(wrong)


def test_a_written_time_is_never_shorter() -> None:
    assert [format_budget(seconds) for seconds in (0.2, 90, 119.5, 121, 3600)] == [
        "1s",
        "90s",
        "2m",
        "3m",
        "60m",
    ]


def test_what_was_spent_before_counts() -> None:
    assert Clock(10.0, spent=10.0).over
    assert not Clock(1000.0, spent=10.0).over
    assert not Clock(None, spent=1e9).over
