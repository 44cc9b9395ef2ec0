"""A tiny experiment from end to end: it runs, skips what is done, goes on, compares, says what is missing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from eunoe.errors import InputError
from eunoe_papers.drawing import draw
from eunoe_papers.experiment import Experiment
from eunoe_papers.loader import find_experiment
from eunoe_papers.measures import Outcome
from eunoe_papers.outcomes import read_outcome
from eunoe_papers.part import part
from eunoe_papers.reproduce import (
    Limits,
    collect_folders,
    count_samples,
    describe_setting,
    estimate_seconds,
    find_missing,
    reproduce,
    select_pending,
    select_ready,
)
from eunoe_papers.results import Results, collect, collect_outcomes
from eunoe_papers.store import find_in_folders, find_stored
from tests.papers.made_up import measures, store, tiny


def test_runs_skips_goes_on_and_compares(tmp_path: Path) -> None:
    seen: list[str] = []

    def go(experiment: Experiment, rounds: int | None = None) -> Results:
        seen.clear()
        planned = experiment.plan("full", [0, 1], out=tmp_path)
        reproduce(
            experiment,
            planned,
            Limits(rounds),
            1,
            lambda run, record: seen.append(run.label) if record else None,
        )
        return collect_folders(experiment, "full", tmp_path)[0]

    def figure(experiment: Experiment, results: Results) -> str:
        found = find_in_folders(experiment, "full", tmp_path)
        drawn = draw(replace(results, experiment=experiment), found, tmp_path / "figure.svg")
        return "" if drawn is None else drawn.read_text()

    results = go(tiny(), rounds=2)
    assert len(seen) == 4 * 2
    assert {row.length for row in results.rows} == {"2 of 3"}
    assert results.shortened == ["2 of 3 rounds: cifar10 fedavg, cifar10 fedavg+wsm"]
    assert "ONLY 2 of 3 rounds: cifar10 fedavg" in figure(tiny(), results)
    results = go(tiny())
    # Each of the four runs had one round left.
    assert len(seen) == 4
    row = results.rows[0]
    assert (row.label, row.paper, row.seeds, row.length) == ("cifar10 fedavg", "0.608 ± 0.010", (0, 1), "3")
    assert not results.shortened
    assert float(row.difference) == pytest.approx(float(row.ours.split()[0]) - 0.608, abs=0.0011)
    assert len(results.verdicts[0].by_seed) == 2
    found = find_in_folders(tiny(), "full", tmp_path)
    assert read_outcome(found[0]).series["classes_per_client"].keys() == {3}
    summary = json.loads((tmp_path / "wsm-table3/full/summary.json").read_text())
    assert summary["rows"][0]["ours"] == row.ours
    go(tiny())
    assert not seen
    for name in ("accuracy", "client-matrices", "partition"):
        drawn = figure(tiny(update={"draws": name}), results)
        assert "STOPPED" not in drawn
        assert "WSM beats FedAvg with LeNet" in drawn
        assert "aria" not in drawn
    assert not figure(tiny(update={"draws": "probabilities"}), results)
    assert len(found) == 4
    with pytest.raises(InputError, match=r"training\.lr = 0\.1, .* 0\.2"):
        go(tiny(training={"lr": 0.2}))


def test_stored_records_are_enough_to_report(tmp_path: Path) -> None:
    experiment = tiny()
    for seed, rounds in ((0, 2), (5, None)):
        reproduce(experiment, experiment.plan("full", [seed], out=tmp_path), Limits(rounds))
    before, found = collect_folders(experiment, "full", tmp_path)
    assert [(row.seeds, row.length) for row in before.rows] == [((0, 5), "2 of 3")] * 2
    store(experiment, [one.planned for one in found], tmp_path / "results")
    after = collect(experiment, "full", find_stored(experiment, "full", tmp_path / "results"))
    assert after.rows == before.rows
    assert [verdict.text() for verdict in after.verdicts] == [verdict.text() for verdict in before.verdicts]


def test_small_runs_are_marked_and_kept_apart(tmp_path: Path) -> None:
    planned = tiny().plan("small", [0], out=tmp_path)
    assert planned[0].values["name"] == planned[0].label == "cifar10 fedavg (small)"
    assert planned[0].folder == tmp_path / "wsm-table3/small/cifar10-fedavg/seed-0"
    reproduce(tiny(), planned, Limits())
    assert len(find_in_folders(tiny(), "small", tmp_path)) == 2
    assert not find_in_folders(tiny(), "full", tmp_path)


def test_limits_shorten_the_estimate_and_the_runs(tmp_path: Path) -> None:
    experiment = tiny(data={"name": "cifar10"}, model={"name": "lenet"})
    planned = experiment.plan("full", [0], out=tmp_path)
    whole = Limits().estimate_seconds(planned)
    assert Limits(rounds=1).estimate_seconds(planned) == pytest.approx(whole / 3)
    assert Limits(hours=whole / 3600 / 4).estimate_seconds(planned) == pytest.approx(whole / 2)
    assert Limits(rounds=1).apply(planned[0]).values["rounds"] == 1
    assert Limits(rounds=9).apply(planned[0]).values["rounds"] == 3


def test_missing_data_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path))
    experiment = tiny(data={"name": "femnist"})
    planned = experiment.plan("full", [0])
    assert find_missing(planned) == {"femnist": tmp_path / "femnist.npz"}
    with pytest.raises(InputError, match=r"femnist.npz.*--stand-in"):
        select_ready(planned)
    with pytest.raises(InputError, match="femnist"):
        select_pending(planned, Limits())
    assert find_missing(experiment.plan("full", [0], stand_in=True)) == {
        "omniglot": tmp_path / "omniglot.npz"
    }


def test_stand_ins_never_stand_beside_the_papers_numbers() -> None:
    experiment = tiny(data={"name": "femnist"})
    run = experiment.plan("full", [0], stand_in=True)[0]
    outcome = Outcome(run.values, {"accuracy": {3: 0.5}})
    row = collect_outcomes(experiment, "full", [(run, outcome)]).rows[0]
    assert (row.paper, row.difference, row.stand_in) == ("", "", "omniglot for femnist")


def test_a_small_run_has_no_difference_from_the_paper() -> None:
    experiment = tiny()
    run = experiment.plan("full", [0])[0]
    outcomes = [(run, Outcome(run.values, {"accuracy": {3: 0.5}}))]
    full, small = (collect_outcomes(experiment, scale, outcomes).rows[0] for scale in experiment.scales)
    assert full.difference
    assert (small.paper, small.difference) == (full.paper, "")


def test_runs_that_diverge_or_do_not_arrive() -> None:
    experiment = tiny()
    runs = experiment.plan("full", [0, 1])[:2]
    diverged = [(run, Outcome(run.values, {}, diverged=True)) for run in runs]
    assert collect_outcomes(experiment, "full", diverged).rows[0].ours == "NC"
    reached = tiny(update={"measures": measures(main={"kind": "rounds_to", "target": 0.5})})
    half = [
        (runs[0], Outcome(runs[0].values, {"accuracy": {2: 0.6}})),
        (runs[1], Outcome(runs[1].values, {"accuracy": {2: 0.4}})),
    ]
    assert collect_outcomes(reached, "full", half).rows[0].ours == "2 (1 of 2 not reached)"
    ended = tiny(update={"measures": measures(main={"kind": "at_planned_end"})})
    one = [(runs[0], Outcome(runs[0].values, {"accuracy": {3: 0.6}})), half[1]]
    assert collect_outcomes(ended, "full", one).rows[0].ours == "0.600 (1 of 2 too short)"


def test_a_run_that_ends_at_its_target_did_not_stop_early() -> None:
    experiment = tiny(stop={"test_target": 0.6})
    run = experiment.plan("full", [0])[0]
    rows = [
        collect_outcomes(experiment, "full", [(run, Outcome(run.values, {"accuracy": {2: accuracy}}))]).rows[
            0
        ]
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


def test_what_the_runs_share_is_said() -> None:
    small = find_experiment("wsm-table5").plan("small", [0])
    shared = "30 clients, 10% a round, 60 rounds, 20,000 training images, images of half the size"
    assert describe_setting(small) == f"{shared}, last rounds: 20"
    flashback = find_experiment("flashback-table1-cifar10").plan("small", [0])
    assert describe_setting(flashback) == "100 clients, 10 a round, 15 rounds, cnn of width 8"
    by_writer = find_experiment("flashback-table1-femnist").plan("small", [0])
    assert describe_setting(by_writer) == "32 a round, 30 rounds, 16 public groups, cnn of width 8"
    assert describe_setting([]) == ""


def test_what_differs_between_the_runs_is_left_out() -> None:
    ablation = find_experiment("wsm-fig6-lenet").plan("small", [0])
    assert describe_setting(ablation) == "100 clients, 60 rounds, last rounds: 5"


def test_cost_by_hand() -> None:
    run = find_experiment("wsm-table3").plan("full", [0], only="cifar100 lr=0.01")[0]
    # 2 clients of 450 samples, 3 epochs, 4000 rounds.
    assert count_samples(run.values) == pytest.approx(2 * 450 * 3 * 4000)
    assert estimate_seconds(run.values) == pytest.approx(10_800_000 / 6100)
    halved = {**run.values, "data": {**run.values["data"], "pool": 2}}
    assert estimate_seconds(halved) == pytest.approx(10_800_000 / 6100 / 3)
