"""The cure of a run: where a remedy wins, where none does, what is kept and what is refused."""

import re
from pathlib import Path
from typing import Any

import pytest

from eunoe.analysis import diagnosis
from eunoe.analysis.remedies import Remedy
from eunoe.config.schema import make_config
from eunoe.config.settings import read_config
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.search import cure_plan, remedies
from eunoe.search.budget import Clock
from eunoe.search.cure import cure, find_cure
from eunoe.search.halving import Callbacks, Halving
from eunoe.search.remedies import BASELINE
from eunoe.search.sweep import Planned
from eunoe.search.verdict import NOT_PRIVATE
from eunoe.simulation.build import build_federation
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from tests.small_runs import NAMED, everything

# It barely learns, so larger steps are a clear cure and smaller ones are none.
SLOW: dict[str, Any] = {
    **NAMED,
    "participation": 4,
    "partition": {"name": "iid", "clients": 8},
    "model": "logistic",
    "training": {"epochs": 1, "lr": 0.0005},
    "stop": {"hours": 5.0},
    "checkpoint_seconds": 60,
}
LARGER = Remedy("larger steps", lr=600.0)
SMALLER = Remedy("smaller steps", lr=0.1)
SAME = Remedy("a trace of fedprox", {"method": {"name": "fedprox", "mu": 1e-12}})


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run to cure."""
    return run(SLOW, out=tmp_path_factory.mktemp("run") / "slow").folder


def tries(monkeypatch: pytest.MonkeyPatch, *table: Remedy) -> None:
    monkeypatch.setattr(remedies, "TABLE", (BASELINE, *table))
    # These runs are too small to forget much.
    count_any_forgetting(monkeypatch)
    monkeypatch.setattr(cure_plan, "MOST_SEEDS", 2)
    monkeypatch.setattr(cure_plan, "MOST_FRESH", 5)


def count_any_forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    for little in ("LITTLE_PER_ROUND", "LITTLE_IF_ALIKE"):
        monkeypatch.setattr(diagnosis, little, 0.0)


def test_a_remedy_that_wins_is_written_with_its_interval(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, SMALLER, LARGER)
    found = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert found.label == "larger steps"
    assert found.validation is not None
    assert found.validation.positive
    assert found.test is not None
    assert any(
        re.fullmatch(
            r"larger steps: \+\d+\.\d points \[\d+\.\d, \d+\.\d\] on validation over 5 fresh seeds; "
            r"round forgetting \d+\.\d points instead of \d+\.\d\.",
            sentence,
        )
        for sentence in found.sentences
    )
    assert found.sentences[-1].startswith("On the test set, read once: +")
    assert found.table is not None
    assert [row[0] for row in found.table.rows] == ["fedavg · ce", "larger steps"]
    # The seeds of the run, of the search and of the judgment have nothing in common.
    seeds = {int(path.name.split("-")[1]) for path in (tmp_path / "cure" / "search").glob("*/seed-*")}
    fresh = {one.config.seed for one in found.runs}
    assert (seeds, fresh) == ({1000, 1001}, {2000, 2001, 2002, 2003, 2004})
    for path in (tmp_path / "cure" / "search").glob("*/seed-*"):
        assert not any("test" in record for record in Run(path).records)
    assert found.config is not None
    written = read_config(found.config)
    assert written["training"]["lr"] == 0.3
    # What the run says of itself stays.
    assert (written["seed"], written["rounds"], written["stop"]) == (0, 4, {"hours": 5.0})
    before = everything(tmp_path)
    again = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert again.sentences == found.sentences
    assert everything(tmp_path) == before
    assert "larger steps" in repr(again)
    with pytest.raises(InputError, match="holds a search with another budget"):
        cure(slow, budget="2h", jobs=1, out=tmp_path / "cure")


def test_where_the_baseline_comes_out_best_it_is_kept(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, SMALLER)
    found = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert (found.label, found.config, found.validation, found.runs) == (None, None, None, ())
    assert found.sentences[-1] == (
        "No remedy is better; keep fedavg · ce. Of 3 remedies tried on 2 search seeds, none reached its "
        "validation accuracy."
    )
    assert not (tmp_path / "cure" / "runs").exists()


def test_a_gain_within_its_interval_is_no_cure(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, SAME)
    monkeypatch.setattr(Halving, "best", lambda self, trials: (trials[1], 1))
    found = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert (found.label, found.config) == (None, None)
    assert found.validation is not None
    assert not found.validation.positive
    assert "No candidate is significantly better; keep fedavg · ce." in repr(found)
    assert not (tmp_path / "cure" / "cure.toml").exists()


@pytest.mark.parametrize("stop", [5, 20])
def test_one_that_was_killed_goes_on_and_finds_the_same(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    tries(monkeypatch, LARGER)
    count = 0

    def die(planned: Planned, record: dict[str, Any] | None) -> None:
        nonlocal count
        count += record is not None
        if count == stop:
            raise KeyboardInterrupt

    whole = cure(slow, budget="1h", jobs=1, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        find_cure(slow, "1h", None, 1, tmp_path / "cut", Callbacks(on_round=die))
    again = cure(slow, budget="1h", jobs=1, out=tmp_path / "cut")
    assert again.validation == whole.validation
    assert again.test == whole.test


def test_a_federation_in_memory_is_handed_over_to_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)
    federation: Federation = build_federation(make_config(SLOW))
    done = run(_without_partition({**SLOW, "rounds": 2}), federation=federation, out=tmp_path / "run")
    found = cure(done, budget="1h", jobs=2)
    assert found.label == "larger steps"
    assert found.folder == tmp_path / "run-cure"
    assert found.runs[0].values["data"] == {"name": "given"}
    with pytest.raises(InputError, match="was a user-provided object: pass it again"):
        cure(tmp_path / "run", budget="1h")


def _without_partition(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "partition"}


def test_fresh_seeds_are_as_many_as_there_is_time_for_and_then_the_same(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)
    monkeypatch.setattr(cure_plan, "MOST_FRESH", 7)
    found = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert {one.config.seed for one in found.runs} == set(range(2000, 2007))
    # What was decided is kept.
    monkeypatch.setattr(cure_plan, "MOST_FRESH", 9)
    assert cure(slow, budget="1h", jobs=1, out=tmp_path / "cure").sentences == found.sentences
    exact = cure(slow, budget="1h", seeds=6, jobs=1, out=tmp_path / "exact")
    assert {one.config.seed for one in exact.runs} == set(range(2000, 2006))


def test_a_run_without_validation_data_gets_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries(monkeypatch, LARGER)
    blind = run({**SLOW, "split": {"validation": 0.0}}, out=tmp_path / "blind")
    found = cure(blind, budget="1h", jobs=1)
    assert found.label == "larger steps"
    assert any(
        "hold out 10% of each client's samples (split.validation=0.1)" in one for one in found.sentences
    )
    assert {one.config.split.validation for one in found.runs} == {0.1}
    assert found.config is not None
    assert read_config(found.config)["split"]["validation"] == 0.0


def test_of_a_private_run_it_says_what_epsilon_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, SMALLER)
    privacy = {"clip": 10.0, "noise": 0.001, "delta": 0.01}
    values = {**SLOW, "rounds": 2, "method": {"name": "fedavg", "weighting": "uniform"}, "privacy": privacy}
    found = cure(run(values, out=tmp_path / "private"), budget="1h", jobs=1)
    assert NOT_PRIVATE in found.sentences


def test_where_class_mixes_are_alike_ups_and_downs_are_no_forgetting_to_cure(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "LITTLE_PER_ROUND", 0.0)
    monkeypatch.setattr(diagnosis, "is_dead", lambda run: False)
    assert diagnosis.labels_alike(Run(slow).read)
    found = cure(slow, out=tmp_path / "cure")
    assert (found.label, found.search, found.runs) == (None, (), ())
    assert "class mixes are alike" in found.sentences[-1]
    assert "There is nothing to cure; keep the run" in found.sentences[-1]


def test_a_run_that_forgets_little_has_nothing_to_cure(slow: Path, tmp_path: Path) -> None:
    assert Run(slow).forgetting < diagnosis.LITTLE_PER_ROUND
    found = cure(slow, out=tmp_path / "cure")
    assert (found.label, found.search, found.runs, found.config) == (None, (), (), None)
    assert "there is nothing to cure; keep the run" in found.sentences[-1]
    assert not (tmp_path / "cure").exists()


def test_a_budget_that_ends_among_the_fresh_seeds_promises_nothing(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)

    class Ending(Clock):
        # After two pairs of runs of four rounds and a start each, and one round of a third pair.
        calls = 0

        @property
        def over(self) -> bool:
            self.calls += 1
            return self.calls > 22

    with monkeypatch.context() as short:
        short.setattr("eunoe.search.cure.Clock", Ending)
        found = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert (found.label, found.test, found.config, found.runs) == (None, None, None, ())
    assert re.fullmatch(
        r"The budget ended after 2 of 5 fresh seeds, on which larger steps, the best of the search, has "
        r"\+\d+\.\d points \[.*\] on validation. Too few for a verdict: run the same command "
        r"to continue, with as much time again\.",
        found.sentences[-1],
    )
    # The same command continues to the same result.
    again = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert again.label == "larger steps"


def test_without_time_for_a_search_averaging_is_judged_by_runs_that_show_both(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)
    monkeypatch.setattr(
        "eunoe.search.cure.make_plan", lambda *given: cure_plan.CurePlan(1, 0, 0.0, 10.0, needed=7200.0)
    )
    found = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert (found.search, found.label) == ((), None)
    assert any(
        "A budget of 60m is too short for a search (use at least 120m, and another --out)" in one
        for one in found.sentences
    )
    assert [path.name for path in (tmp_path / "cure" / "runs").iterdir()] == ["averaging"]
    assert found.table is not None
    assert [row[0] for row in found.table.rows] == ["fedavg · ce", "averaging"]
    # The baseline has the numbers that it would have by itself.
    alone = run({**SLOW, "seed": 2000}, out=tmp_path / "alone")
    first = found.runs[0]
    assert (first.config.averaging, first.config.seed) == (None, 2000)
    assert first.series("validation.accuracy")[1][-1] == alone.series("validation.accuracy")[1][-1]
    assert first.series("test.accuracy")[1][-1] == alone.series("test.accuracy")[1][-1]


def test_what_cannot_be_cured_is_refused_before_anything_runs(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_any_forgetting(monkeypatch)
    with pytest.raises(InputError, match=r"a budget of 1s is too short .* \(use at least \d+[sm]\)"):
        cure(slow, budget="0.001s", out=tmp_path / "cure")
    with pytest.raises(InputError, match="at least 5 fresh seeds, not 3"):
        cure(slow, seeds=3, out=tmp_path / "cure")
    with pytest.raises(InputError, match="is not a run folder"):
        cure(tmp_path, out=tmp_path / "cure")
    (tmp_path / "base.toml").touch()
    with pytest.raises(InputError, match=r"base\.toml is not a run folder"):
        cure(tmp_path / "base.toml", out=tmp_path / "cure")
    with pytest.raises(InputError, match="invalid budget 'soon': write it as 90s, 15m or 2h"):
        cure(slow, budget="soon", out=tmp_path / "cure")
    values = {**NAMED, "rounds": 1, "split": {"validation": 0.0}}
    given = build_federation(make_config(values))
    blind = run(_without_partition(values), federation=given, out=tmp_path / "blind")
    with pytest.raises(InputError, match=r"no client has any: set split\.validation"):
        cure(blind, out=tmp_path / "cure")
    (blind.folder / "flower.json").write_text("{}")
    with pytest.raises(InputError, match="is the run of a Flower federation"):
        cure(blind, out=tmp_path / "cure")
    assert not (tmp_path / "cure").exists()
