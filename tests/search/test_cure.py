"""The cure of a run: where a remedy wins, where none does, what is kept and what is refused."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eunoe.analysis import diagnosis
from eunoe.analysis.remedies import Remedy
from eunoe.config.schema import make_config
from eunoe.config.settings import read_config
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.search import remedies
from eunoe.search.cure import ENDING, cure, find_cure
from eunoe.search.cure_search import CureOptions, Search, SearchClock
from eunoe.search.halving import Callbacks
from eunoe.search.remedies import CureRuns
from eunoe.search.verdict import NOT_PRIVATE, SETS, Arms, Outcome, describe_fairness
from eunoe.simulation.build import build_federation
from eunoe.simulation.many import Planned
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
LARGER = Remedy("larger steps", {"training": {"lr": 0.3}})
SMALLER = Remedy("smaller steps", {"training": {"lr": 5e-5}})
SAME = Remedy("a trace of fedprox", {"method": {"name": "fedprox", "mu": 1e-12}})


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run to cure."""
    return run(SLOW, out=tmp_path_factory.mktemp("run") / "slow").folder


def tries(monkeypatch: pytest.MonkeyPatch, *table: Remedy) -> None:
    monkeypatch.setattr(remedies, "TABLE", (remedies.TABLE[0], *table))
    monkeypatch.setattr("eunoe.search.cure_search.vary", lambda remedy: [])
    monkeypatch.setattr("eunoe.search.cure_search.MOST_SEEDS", 2)
    monkeypatch.setattr("eunoe.search.cure_search.REPEATS", 0)
    monkeypatch.setattr("eunoe.search.cure.MOST_FRESH", 5)


def test_a_remedy_that_wins_is_written_with_its_interval(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, SMALLER, LARGER)
    result = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert result.label in ("larger steps", "larger steps with averaging")
    assert result.gain is not None
    assert result.gain.positive
    assert result.over_last is not None
    assert result.test is not None
    interval = r"\+\d+\.\d points \[\d+\.\d, \d+\.\d\]"
    assert any(
        re.fullmatch(
            rf"{result.label}: {interval} over the baseline's best checkpoint, {interval} over its last "
            r"rounds, on validation samples kept for judging, 5 fresh seeds; round forgetting "
            r"\d+\.\d points instead of \d+\.\d( \(model sent to clients: \d+\.\d\))?\.",
            sentence,
        )
        for sentence in result.sentences
    ), result.sentences
    assert any(sentence.startswith("On the test set, read once: +") for sentence in result.sentences)
    assert any(sentence.startswith("Balanced accuracy +") for sentence in result.sentences)
    assert result.table is not None
    assert [row[0] for row in result.table.rows] == [
        "fedavg · ce, last rounds",
        "fedavg · ce, best checkpoint",
        f"{result.label}, best checkpoint",
    ]
    # The seeds of the run, of the search and of the judgment have nothing in common.
    seeds = {int(path.name.split("-")[1]) for path in (tmp_path / "cure" / "search").glob("*/seed-*")}
    fresh = {run.config.seed for run in result.runs}
    assert (seeds, fresh) == ({1000, 1001}, {2000, 2001, 2002, 2003, 2004})
    for path in (tmp_path / "cure" / "search").glob("*/seed-*"):
        assert not any("test" in record for record in Run(path).records)
    assert result.config is not None
    written = read_config(result.config)
    assert written["training"]["lr"] == 0.3
    # What the run says of itself stays.
    assert (written["seed"], written["rounds"], written["stop"]) == (0, 4, {"hours": 5.0})
    assert not written["evaluation"]["judging"]
    before = everything(tmp_path)
    again = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert again.sentences == result.sentences
    assert everything(tmp_path) == before
    assert "larger steps" in repr(again)
    with pytest.raises(InputError, match="has a search with a different trials"):
        cure(slow, budget="1h", trials=3, jobs=1, out=tmp_path / "cure")


def test_the_gain_is_that_of_the_best_checkpoints_on_samples_that_picked_nothing(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)
    result = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert result.gain is not None
    gains = []
    for before, after in zip(result.runs[:5], result.runs[5:], strict=True):
        scores = []
        for each in (before, after):
            best = max(each.records, key=lambda record: record["validation"]["accuracy"])
            scores.append(best["judging"]["accuracy"])
        gains.append(scores[1] - scores[0])
    assert result.gain.mean == pytest.approx(sum(gains) / 5)


def test_where_the_baseline_comes_out_best_it_is_kept(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, SMALLER)
    result = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert (result.label, result.config, result.gain, result.runs) == (None, None, None, ())
    assert result.sentences[-2] == "1 remedy was tried on 2 search seeds."
    assert result.sentences[-1] == (
        "No remedy is better; keep fedavg · ce. None exceeded the validation accuracy of its best checkpoint."
    )
    assert not (tmp_path / "cure" / "runs").exists()


def test_a_gain_within_its_interval_is_no_cure(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, SAME)
    ranked = Search._ranked
    monkeypatch.setattr(Search, "_ranked", lambda self: ranked(self)[::-1])
    result = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert (result.label, result.config) == (None, None)
    assert result.gain is not None
    assert not result.gain.positive
    assert "No candidate is significantly better; keep fedavg · ce." in repr(result)
    assert not (tmp_path / "cure" / "cure.toml").exists()


@pytest.mark.parametrize("stop", [5, 20, 45])
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
        find_cure(slow, CureOptions(budget=3600, jobs=1), tmp_path / "cut", Callbacks(on_round=die))
    again = cure(slow, budget="1h", jobs=1, out=tmp_path / "cut")
    assert (again.label, again.gain, again.test) == (whole.label, whole.gain, whole.test)


def test_trials_fix_the_search_whatever_the_time(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, SMALLER, SAME, LARGER)
    monkeypatch.setattr("eunoe.search.cure_search.estimate_seconds", lambda run: 1e6)
    result = cure(slow, budget="1h", trials=2, seeds=6, jobs=1, out=tmp_path / "cure")
    names = {path.name for path in (tmp_path / "cure" / "search").iterdir()}
    assert names == {"fedavg_ce", "smaller_steps", "a_trace_of_fedprox"}
    assert "2 remedies were tried on 2 search seeds." in result.sentences


def test_trials_leave_time_for_the_verdict(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER, SAME, SMALLER)
    # A second per round: 16 for the first two trials, 60 for the verdict, and none for the other two.
    monkeypatch.setattr(SearchClock, "spent", property(lambda clock: clock.rounds))
    result = cure(slow, budget=80 / ENDING, trials=3, jobs=1, out=tmp_path / "cure")
    assert "1 remedy was tried on 2 search seeds." in result.sentences
    assert result.gain is not None
    assert len(result.runs) == 10


def test_variations_of_the_best_and_further_seeds_follow_the_table(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)
    monkeypatch.setattr("eunoe.search.cure_search.vary", lambda remedy: [replace(remedy, lr=1000.0)])
    monkeypatch.setattr("eunoe.search.cure_search.REPEATS", 1)
    result = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    folders = {path.name: len(list(path.iterdir())) for path in (tmp_path / "cure" / "search").iterdir()}
    assert folders == {"fedavg_ce": 3, "larger_steps": 3, "larger_steps_1e+03_times_the_learning_rate": 3}
    assert "2 remedies were tried on 3 search seeds." in result.sentences


def test_a_metric_of_classes_or_clients_picks_models_and_remedies(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)
    result = cure(slow, budget="1h", jobs=1, metric="worst_class", out=tmp_path / "cure")
    record = result.runs[0].records[-1]
    known = [value for value in record["judging"]["per_class"] if value is not None]
    assert record["score"]["judging"] == min(known)
    assert result.table is not None
    assert result.table.headings[1:4] == ["validation worst class", "test worst class", "balanced"]
    assert "points of worst class [" in "\n".join(result.sentences)
    with pytest.raises(InputError, match=r"cure: metric: input should be .*'worst_class'"):
        cure(slow, metric="worst", out=tmp_path / "other")


def test_a_federation_in_memory_is_handed_over_to_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)
    federation: Federation = build_federation(make_config(SLOW))
    done = run(_without_partition({**SLOW, "rounds": 2}), federation=federation, out=tmp_path / "run")
    result = cure(done, budget="1h", jobs=2)
    assert result.label in ("larger steps", "larger steps with averaging")
    assert result.folder == tmp_path / "run-cure"
    assert result.runs[0].values["data"] == {"name": "given"}
    with pytest.raises(InputError, match="was a user-provided object: pass it again"):
        cure(tmp_path / "run", budget="1h")


def _without_partition(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "partition"}


def test_fresh_seeds_are_as_many_as_there_is_time_for_and_then_the_same(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)
    monkeypatch.setattr("eunoe.search.cure.MOST_FRESH", 7)
    result = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert {run.config.seed for run in result.runs} == set(range(2000, 2007))
    # What was decided is kept.
    monkeypatch.setattr("eunoe.search.cure.MOST_FRESH", 9)
    assert cure(slow, budget="1h", jobs=1, out=tmp_path / "cure").sentences == result.sentences
    exact = cure(slow, budget="1h", seeds=6, jobs=1, out=tmp_path / "exact")
    assert {run.config.seed for run in exact.runs} == set(range(2000, 2006))


def test_a_run_without_validation_data_gets_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries(monkeypatch, LARGER)
    blind = run({**SLOW, "split": {"validation": 0.0}}, out=tmp_path / "blind")
    result = cure(blind, budget="1h", jobs=1)
    assert result.label in ("larger steps", "larger steps with averaging")
    assert any(
        "hold out 10% of each client's samples (split.validation=0.1)" in one for one in result.sentences
    )
    assert {one.config.split.validation for one in result.runs} == {0.1}
    assert result.config is not None
    assert read_config(result.config)["split"]["validation"] == 0.0


def test_of_a_private_run_it_says_what_epsilon_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, SMALLER)
    privacy = {"clip": 10.0, "noise": 0.001, "delta": 0.01}
    values = {**SLOW, "rounds": 2, "method": {"name": "fedavg", "weighting": "uniform"}, "privacy": privacy}
    result = cure(run(values, out=tmp_path / "private"), budget="1h", jobs=1)
    assert NOT_PRIVATE in result.sentences


def test_a_run_that_forgets_little_or_has_alike_classes_is_searched_too(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)
    assert diagnosis.labels_alike(Run(slow).read)
    assert cure(slow, budget="1h", jobs=1, out=tmp_path / "cure").gain is not None


def test_a_budget_that_ends_among_the_fresh_seeds_promises_nothing(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)
    confirm = CureRuns.confirm

    class Ending:
        # After two pairs of runs of four rounds and a start each, and one round of a third pair.
        calls = 0

        @property
        def over(self) -> bool:
            self.calls += 1
            return self.calls > 22

    with monkeypatch.context() as short:
        short.setattr("eunoe.search.remedies.AT_ONCE", 1)
        short.setattr(CureRuns, "confirm", lambda self, *args: confirm(self, *args[:-1], Ending()))
        result = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert (result.label, result.test, result.config, result.runs) == (None, None, None, ())
    assert re.fullmatch(
        r"The budget ended after 2 of 5 fresh seeds, on which larger steps.* has \+\d+\.\d points \[.*\] "
        r"over the best checkpoint\. Too few for a verdict: run the same command to continue\.",
        result.sentences[-1],
    )
    # The same command continues to the same result.
    again = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert again.label is not None


def test_without_time_for_a_search_averaging_is_judged_by_runs_that_show_both(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries(monkeypatch, LARGER)
    monkeypatch.setattr("eunoe.search.cure_search.FIRST", 0.0)
    result = cure(slow, budget="1h", jobs=1, out=tmp_path / "cure")
    assert (result.search, result.label) == ((), None)
    assert any(
        re.match(r"A budget of 60m is too short for a search \(about \d+[sm] would allow one", sentence)
        for sentence in result.sentences
    )
    assert [path.name for path in (tmp_path / "cure" / "runs").iterdir()] == ["averaging"]
    assert result.table is not None
    assert [row[0] for row in result.table.rows] == [
        "fedavg · ce, last rounds",
        "fedavg · ce, best checkpoint",
        "averaging, best checkpoint",
    ]
    # The baseline has the numbers that it would have by itself.
    judged = {"evaluation": {"judging": True}}
    alone = run({**SLOW, **judged, "seed": 2000}, out=tmp_path / "alone")
    first = result.runs[0]
    assert (first.config.averaging, first.config.seed) == (None, 2000)
    assert first.series("judging.accuracy")[1][-1] == alone.series("judging.accuracy")[1][-1]
    assert first.series("test.accuracy")[1][-1] == alone.series("test.accuracy")[1][-1]


def test_a_cure_that_harms_a_class_says_so_and_names_one_that_does_not() -> None:
    def outcomes(score: float, worst: float) -> list[Outcome]:
        jitter = (0.0, 0.01, -0.01)
        same = [dict.fromkeys(SETS, 0.5 + j) for j in jitter]
        scores = [dict.fromkeys(SETS, score + j) for j in jitter]
        worsts = [dict.fromkeys(SETS, worst + 2 * j) for j in jitter]
        return [Outcome(*each) for each in zip(scores, same, worsts, same, strict=True)]

    arms = Arms(outcomes(0.6, 0.4), outcomes(0.5, 0.4), outcomes(0.7, 0.2))
    harmful, harmless = outcomes(0.72, 0.1)[0], outcomes(0.65, 0.45)[0]
    others = [("baseline", outcomes(0.6, 0.4)[0]), ("a", harmful), ("b", harmless)]
    first, second = describe_fairness(arms, others)
    assert "worst class -20.0 points" in first
    assert second == "It significantly lowers the worst class. b did not on the search seeds."
    assert describe_fairness(arms, others[:2])[1].endswith("No other candidate avoids that.")


def test_what_cannot_be_cured_is_refused_before_anything_runs(slow: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cure: seeds: .* greater than or equal to 5 \(not 3\)"):
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
        cure(blind.folder, out=tmp_path / "cure")
    assert not (tmp_path / "cure").exists()


def test_only_models_that_retain_enough_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries(monkeypatch, LARGER)
    retain = [{"name": "digits", "data": "digits"}]
    folder = run({**SLOW, "retain": retain}, out=tmp_path / "slow").folder
    result = cure(folder, budget="1h", jobs=1, retain_at_least=0.5, out=tmp_path / "cure")
    assert result.gain is not None
    assert result.table is not None
    assert "A model that retains less than 50% counts as accuracy 0." in result.sentences
    for each in result.runs:
        assert each.config.evaluation.retain_at_least == 0.5
    with pytest.raises(InputError, match="need a reference set in retain"):
        cure(run(SLOW).folder, budget="1h", jobs=1, retain_at_least=0.5, out=tmp_path / "none")
