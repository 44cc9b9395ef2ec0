"""A tiny recipe from end to end: it runs, skips what is done, goes on, compares, and says what is missing."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from eunoe.config.merging import merge
from eunoe.errors import InputError
from eunoe.papers.base import Recipe, Run, Scale, Variant
from eunoe.papers.claims import Claim, highest, lowest, mean_gain
from eunoe.papers.drawing import draw
from eunoe.papers.measures import Outcome, at_end, at_planned_end, last_rounds, rounds_to
from eunoe.papers.part import part
from eunoe.papers.reproduce import Choice, cannot_go_on, missing, progress, read, ready, report, reproduce
from eunoe.papers.results import collect

COMMON: dict[str, Any] = {
    "rounds": 3,
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "clients": 5, "alpha": 0.5},
    "participation": 2,
    "model": {"name": "logistic"},
    "training": {"epochs": 1, "batch_size": 16, "lr": 0.1},
    "evaluation": {"every": 1, "last": 2},
    "method": {"name": "fedavg"},
    "loss": {"name": "ce"},
    "engine": {"name": "serial"},
}

SCALES: tuple[Scale, ...] = ("full", "small")


def tiny(**changes: Any) -> Recipe:
    return Recipe(
        "wsm-table3",
        merge(COMMON, changes),
        (Variant("cifar10 fedavg", {}), Variant("cifar10 fedavg+wsm", {"loss": {"name": "wsm"}})),
        {"": last_rounds("accuracy")},
        (Claim("WSM is better", mean_gain("fedavg+wsm", "fedavg")),),
        {"rounds": 2, "data": {"limit": 300}},
        after=lambda run: {"classes": float(run.simulation.federation.classes)},
    )


def test_runs_skips_goes_on_and_compares(tmp_path: Path) -> None:
    seen: list[str] = []

    def go(recipe: Recipe, rounds: int | None = None) -> Any:
        seen.clear()
        choice = Choice(recipe, "full", tmp_path, [0, 1], rounds=rounds)
        results, absent = reproduce(
            choice, 1, lambda planned, record: seen.append(planned.label) if record else None
        )
        assert not absent
        return choice, results

    choice, results = go(tiny(), rounds=2)
    assert len(seen) == 4 * 2
    assert {row.length for row in results.rows} == {"2 of 3"}
    assert results.stopped == ["after 2 of 3 rounds: cifar10 fedavg, cifar10 fedavg+wsm"]
    drawn = draw(choice, results)
    assert drawn is not None
    assert "STOPPED EARLY after 2 of 3 rounds: cifar10 fedavg" in drawn.read_text()
    choice, results = go(tiny())
    # Each of the four runs had one round left.
    assert len(seen) == 4
    row = results.rows[0]
    assert (row.label, row.paper, row.seeds, row.length) == ("cifar10 fedavg", "0.608 ± 0.010", 2, "3")
    assert row.folders[1] == "wsm-table3/full/cifar10-fedavg/seed-1"
    assert not results.stopped
    assert float(row.difference) == pytest.approx(float(row.ours.split()[0]) - 0.608, abs=0.0011)
    assert len(results.verdicts[0].by_seed) == 2
    outcome = read(choice, choice.runs()[0])
    assert outcome is not None
    assert outcome.series["classes"] == {3: 10.0}
    summary = json.loads((tmp_path / "wsm-table3/full/summary-wsm-table3.json").read_text())
    assert summary["rows"][0]["ours"] == row.ours
    go(tiny())
    assert not seen
    for figure in ("accuracy", "client-matrices", "partition"):
        drawn = draw(replace(choice, recipe=replace(tiny(), draws=figure)), results)
        assert drawn is not None
        assert "STOPPED" not in drawn.read_text()
        assert "WSM beats FedAvg with LeNet" in drawn.read_text()
    assert draw(replace(choice, recipe=replace(tiny(), draws="probabilities")), results) is None
    assert progress(choice) == {"runs": 4, "begun": 4, "ended": 4}
    with pytest.raises(InputError, match=r"lr is 0.1 in .* cannot become 0.2"):
        go(tiny(training={"lr": 0.2}))


def as_in_a_clone(folder: Path) -> None:
    """Take away all that is not under version control."""
    for heavy in ("checkpoints", "states", "partition.safetensors", "timings.jsonl", ".lock"):
        for path in folder.rglob(heavy):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_records_alone_are_enough_to_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="nothing of wsm-table3 has been run at full scale"):
        report(Choice(tiny(), "full", tmp_path))
    stopped, ended = (Choice(tiny(), "full", tmp_path, [seed], rounds=r) for seed, r in ((0, 2), (5, None)))
    reproduce(stopped)
    before, _ = reproduce(ended)
    assert [(row.seeds, row.length) for row in before.rows] == [(2, "2 of 3")] * 2
    as_in_a_clone(tmp_path)
    for path in tmp_path.rglob("after.json"):
        path.unlink()
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr("eunoe.papers.reproduce.missing", lambda runs: {"digits": tmp_path / "none.npz"})
    choice = Choice(tiny(), "full", tmp_path)
    assert report(choice) == replace(before, recipe=choice.recipe, verdicts=ANY)
    assert progress(choice) == {"runs": 6, "begun": 4, "ended": 2}
    monkeypatch.undo()
    # Without a checkpoint a run that stopped early is left as it is, not begun again.
    whole = replace(choice, seeds=[0, 5])
    assert cannot_go_on(whole) == [whole.folder(run) for run in choice.runs() if run.seed == 0]
    reproduce(whole, 1, lambda planned, record: pytest.fail("something was run"))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == kept


def test_results_of_another_setting_are_not_reported(tmp_path: Path) -> None:
    reproduce(Choice(tiny(), "full", tmp_path, [0]))
    with pytest.raises(InputError, match=r"lr is 0.1 in .* cannot become 0.2"):
        report(Choice(tiny(training={"lr": 0.2}), "full", tmp_path))


def test_small_runs_are_marked_and_kept_apart(tmp_path: Path) -> None:
    choice = Choice(tiny(), "small", tmp_path, [0])
    planned = choice.planned(choice.runs()[0])
    assert planned.values["name"] == "cifar10 fedavg (small)"
    assert planned.folder == tmp_path / "wsm-table3/small/cifar10-fedavg/seed-0"
    reproduce(choice, 1)
    assert progress(choice)["ended"] == 2
    assert progress(Choice(tiny(), "full", tmp_path, [0]))["begun"] == 0


def test_missing_data_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path))
    recipe = tiny(data={"name": "femnist"})
    runs = recipe.runs("full", [0])
    assert missing(runs) == {"femnist": tmp_path / "femnist.npz"}
    with pytest.raises(InputError, match=r"femnist.npz.*--stand-in"):
        ready(runs, missing(runs), "wsm-table3")
    assert missing(recipe.runs("full", [0], stand_in=True)) == {"omniglot": tmp_path / "omniglot.npz"}


def test_stand_ins_never_stand_beside_the_papers_numbers() -> None:
    recipe = tiny(data={"name": "femnist"})
    run = recipe.runs("full", [0], stand_in=True)[0]
    outcome = Outcome(run.config, {"accuracy": {3: 0.5}})
    row = collect(recipe, "full", [(run, outcome)]).rows[0]
    assert (row.paper, row.difference, row.stand_in) == ("", "", "omniglot for femnist")


def test_claims_are_judged_on_the_papers_data_where_there_are_some() -> None:
    recipe = tiny(data={"name": "femnist"})
    gains = {False: 0.03, True: -0.15}

    def outcomes(stand_in: bool) -> list[tuple[Run, Outcome]]:
        return [
            (run, Outcome(run.config, {"accuracy": {3: 0.5 + gains[stand_in] * run.label.endswith("wsm")}}))
            for run in recipe.runs("full", [0, 1], stand_in=stand_in)
        ]

    both = collect(recipe, "full", outcomes(False) + outcomes(True)).verdicts[0]
    assert both.mean == pytest.approx(0.03)
    assert both.claim.sentence == "WSM is better"
    other = collect(recipe, "full", outcomes(True)).verdicts[0]
    assert other.mean == pytest.approx(-0.15)
    assert other.claim.sentence == "WSM is better (on other data than the paper's)"


def test_a_claim_names_what_it_speaks_of_and_was_not_run() -> None:
    claim = Claim(
        "WSM beats all", highest("cifar10 fedavg+wsm", ("cifar10 fedavg",)), speaks_of=("fedavg", "moon")
    )
    recipe = Recipe("wsm-table3", COMMON, tiny().variants, {"": at_end("accuracy")}, (claim,), {})
    outcomes = [(run, Outcome(run.config, {"accuracy": {3: 0.5}})) for run in recipe.runs("full", [0, 1])]
    assert collect(recipe, "full", outcomes).verdicts[0].claim.sentence == "WSM beats all (not run: moon)"


def test_a_small_run_has_no_difference_from_the_paper() -> None:
    recipe = tiny()
    run = recipe.runs("full", [0])[0]
    outcomes = [(run, Outcome(run.config, {"accuracy": {3: 0.5}}))]
    full, small = (collect(recipe, scale, outcomes).rows[0] for scale in SCALES)
    assert full.difference
    assert (small.paper, small.difference) == (full.paper, "")


def test_runs_that_diverge_or_do_not_arrive() -> None:
    recipe = tiny()
    runs = recipe.runs("full", [0, 1])[:2]
    diverged = [(run, Outcome(run.config, {}, diverged=True)) for run in runs]
    assert collect(recipe, "full", diverged).rows[0].ours == "NC"
    reached = Recipe("wsm-table3", COMMON, recipe.variants, {"": rounds_to(0.5)}, recipe.claims, {})
    half = [
        (runs[0], Outcome(runs[0].config, {"accuracy": {2: 0.6}})),
        (runs[1], Outcome(runs[1].config, {"accuracy": {2: 0.4}})),
    ]
    assert collect(reached, "full", half).rows[0].ours == "2 (1 of 2 not reached)"


def test_what_a_stopped_run_did_not_measure_is_not_judged() -> None:
    claims = (Claim("WSM ends higher", mean_gain("fedavg+wsm", "fedavg")),)
    recipe = Recipe("wsm-table3", COMMON, tiny().variants, {"": at_planned_end("accuracy")}, claims, {})
    fedavg, wsm = recipe.runs("full", [0])

    def by_seed(of_wsm: Outcome) -> tuple[tuple[float, ...], int]:
        outcomes = [(fedavg, Outcome(COMMON, {"accuracy": {3: 0.5}})), (wsm, of_wsm)]
        verdict = collect(recipe, "full", outcomes).verdicts[0]
        return verdict.by_seed, verdict.diverged

    assert by_seed(Outcome(COMMON, {"accuracy": {2: 0.6}})) == ((), 0)
    assert by_seed(Outcome(COMMON, {"accuracy": {2: 0.6}}, diverged=True)) == ((), 1)


def test_a_round_that_was_not_reached_counts_as_the_one_after_the_last() -> None:
    recipe = Recipe("wsm-table3", COMMON, tiny().variants, {"": rounds_to(0.5)}, tiny().claims, {})
    fedavg, wsm = recipe.runs("full", [0])
    outcomes = [
        (fedavg, Outcome(COMMON, {"accuracy": {3: 0.6}})),
        (wsm, Outcome(COMMON, {"accuracy": {3: 0.1}})),
    ]
    assert collect(recipe, "full", outcomes).verdicts[0].by_seed == (4 - 3,)


def test_what_a_stopped_run_leaves_open_is_no_success() -> None:
    claims = (Claim("WSM is faster", lowest("cifar10 fedavg+wsm", ("cifar10 fedavg",)), "rounds"),)
    recipe = Recipe("wsm-table3", COMMON, tiny().variants, {"": rounds_to(0.5)}, claims, {})
    fedavg, wsm = recipe.runs("full", [0])

    def by_seed(of_fedavg: dict[int, float], of_wsm: dict[int, float]) -> tuple[float, ...]:
        outcomes = [
            (fedavg, Outcome(COMMON, {"accuracy": of_fedavg})),
            (wsm, Outcome(COMMON, {"accuracy": of_wsm})),
        ]
        return collect(recipe, "full", outcomes).verdicts[0].by_seed

    # FedAvg has not reached it in two rounds, so WSM has saved at least two.
    assert by_seed({2: 0.1}, {1: 0.6}) == (3 - 1,)
    stopped = collect(recipe, "full", [(fedavg, Outcome(COMMON, {"accuracy": {2: 0.1}}))])
    assert stopped.rows[0].ours == "more than 2"
    # WSM itself stopped before it got there, and might have needed any number.
    assert by_seed({3: 0.6}, {1: 0.1}) == ()
    # Neither got there, which says nothing.
    assert by_seed({3: 0.1}, {3: 0.1}) == ()


def test_a_run_that_ends_at_its_target_did_not_stop_early() -> None:
    recipe = tiny(stop={"test_target": 0.6})
    run = recipe.runs("full", [0])[0]
    rows = [
        collect(recipe, "full", [(run, Outcome(run.config, {"accuracy": {2: accuracy}}))]).rows[0]
        for accuracy in (0.6, 0.5)
    ]
    assert [row.length for row in rows] == ["2", "2 of 3"]


def test_a_part_of_a_data_set_is_the_same_every_time() -> None:
    first, second = part(of="digits", limit=300, test_limit=100), part(of="digits", limit=300, test_limit=100)
    assert len(first.train) == 300
    assert len(first.test) == 100
    assert bool((first.train.x == second.train.x).all())
    assert first.mean == part(of="digits").mean
    assert len(part(of="digits").test) == 355
