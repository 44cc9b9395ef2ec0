"""When a network has learned enough for a verdict, by numbers worked by hand."""

from pathlib import Path

import pytest

from eunoe.papers import find_exhibit
from eunoe.papers.exhibit import PlannedRun
from eunoe.papers.measures import Outcome
from eunoe.papers.results import rows_and_verdicts
from eunoe.papers.store import load
from eunoe.papers.trained import CENTRAL, needed, network, reached, untrained, what_is_reached

RUNS = Path(__file__).parent.parent.parent / "results" / "runs"
TABLE = find_exhibit("flashback-table1-cifar10")


def test_what_is_reached_is_the_median_of_the_last_third() -> None:
    values = dict(enumerate((0.9, 0.9, 0.9, 0.9, 0.1, 0.2, 0.6), 1))
    # A third of seven rounds is two.
    assert reached(Outcome({}, {"accuracy": values})) == pytest.approx(0.4)
    assert reached(Outcome({}, {"accuracy": {5: 0.3}})) == 0.3
    assert reached(Outcome({}, {})) == 0.0
    assert reached(Outcome({}, {"accuracy": values}), until=1) == values[1]


def test_a_third_of_central_accuracy_and_twice_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CENTRAL, ("cifar10", "cnn"), 0.66)
    monkeypatch.setitem(CENTRAL, ("cifar100", "lenet"), 0.3)
    assert needed(("cifar10", "cnn")) == pytest.approx(0.22)
    assert needed(("cifar100", "lenet")) == pytest.approx(0.1)
    monkeypatch.setitem(CENTRAL, ("cifar10", "cnn"), 0.45)
    assert needed(("cifar10", "cnn")) == pytest.approx(0.2)
    assert needed(("cifar10", "a network of somebody")) == pytest.approx(1 / 3)
    monkeypatch.setitem(CENTRAL, ("cifar10", "lenet"), 0.69)
    assert needed(("cifar10", "lenet on quarter-size images")) == pytest.approx(0.23)
    monkeypatch.setitem(CENTRAL, ("cifar10", "lenet on quarter-size images"), 0.66)
    assert needed(("cifar10", "lenet on quarter-size images")) == pytest.approx(0.22)


def test_a_network_is_told_by_its_width_and_its_images() -> None:
    (run,) = find_exhibit("wsm-table4-norms").plan("medium", [0], only="cifar10 fedavg batch")
    assert network(run.values) == ("cifar10", "resnet18 of width 8 on half-size images")
    (run,) = find_exhibit("wsm-table3").plan("full", [0], only="cifar10 fedavg")
    assert network(run.values) == ("cifar10", "lenet")


def test_fedavg_decides_in_its_best_line_and_else_the_median_line() -> None:
    lines = {run.line: run for run in TABLE.plan("full", [0, 1])}

    def reason(**accuracy: float) -> str:
        runs = [(lines[line], Outcome({}, {"accuracy": {9: value}})) for line, value in accuracy.items()]
        return untrained(what_is_reached(runs))

    assert reason(fedavg=0.4, flashback=0.1) == ""
    assert reason(fedavg=0.19, flashback=0.6).startswith("FedAvg reaches 19.0% on cifar10, and ")
    assert reason(flashback=0.6, fedntd=0.12).startswith("the median line reaches 12.0%")
    assert reason(flashback=0.6, fedntd=0.12, fedprox=0.5) == ""
    diverged = [(lines["fedavg"], Outcome({}, {}, diverged=True))]
    assert untrained(what_is_reached(diverged)) == ""


def at_round_nine(runs: list[tuple[PlannedRun, float]]) -> list[tuple[PlannedRun, Outcome]]:
    return [(run, Outcome({}, {"accuracy": {9: value}})) for run, value in runs]


def test_the_best_learning_rate_counts_and_the_worst_setting() -> None:
    rates = find_exhibit("wsm-table5")
    runs = [(run, 0.1 + run.key.has(lr=0.05) * 0.2) for run in rates.plan("small", [0])]
    assert untrained(what_is_reached(at_round_nine(runs))) == ""
    shares = find_exhibit("wsm-fig6-lenet")
    runs = [(run, 0.3 - run.key.has(alpha=0.01) * 0.18) for run in shares.plan("small", [0])]
    reason = untrained(what_is_reached(at_round_nine(runs)))
    assert reason.startswith("FedAvg reaches 12.0%")


def test_fedavg_with_something_added_is_not_fedavg() -> None:
    runs = find_exhibit("stream-recorded").plan("full", [0])
    accuracy = {"fedavg": 0.4, "fedavg+everything": 0.9}
    outcomes = [(run, Outcome(run.values, {"accuracy": {9: accuracy.get(run.line, 0.8)}})) for run in runs]
    assert {run.line for run in runs} > accuracy.keys()
    assert [one.text() for one in what_is_reached(outcomes)] == ["FedAvg 40%"]


def test_claims_about_data_need_no_training() -> None:
    exhibit = find_exhibit("wsm-fig2")
    outcomes = [
        (run, Outcome(run.values, {"classes_per_client": {1: 4.0}})) for run in exhibit.plan("full", [0, 1])
    ]
    assert rows_and_verdicts(exhibit, "full", outcomes).verdicts[0].word == "seen"


def test_central_accuracies_are_those_of_the_stored_runs() -> None:
    stored: dict[tuple[str, str], float] = {}
    for run in load(RUNS / "central-bounds.parquet"):
        if run.records.config["method"]["on"] == "all":
            config = run.records.config
            width = {"width": config["model"]["width"]} if "width=8" in run.key.line else {}
            which = network({**config, "model": {"name": config["model"]["name"], **width}})
            last = run.records.metrics[-1]["test"]["accuracy"]
            stored[which] = max(stored.get(which, 0.0), last)
    assert {which: round(value, 3) for which, value in stored.items()} == CENTRAL
