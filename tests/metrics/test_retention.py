"""Retention by hand, and in runs."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.analysis.comparison import Comparison
from eunoe.analysis.summary import summarize
from eunoe.config.schema import make_config
from eunoe.errors import InputError
from eunoe.metrics import Evaluation, Predictions, Snapshot
from eunoe.metrics.retention import Retention
from eunoe.report.figures import all_figures
from eunoe.search.verdict import read_outcome
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from tests.small_runs import FAST, Stopped, bits, stop_after

SETTING: dict[str, Any] = {
    **FAST,
    "partition": {"name": "dirichlet", "clients": 8, "alpha": 0.1},
    "model": {"name": "mlp", "hidden": [4]},
    "retain": [{"name": "digits", "data": "digits"}],
}


def evaluation(said: list[int]) -> Evaluation:
    labels = np.array([0, 0, 1, 1])
    return Evaluation(Predictions(np.array(said), np.ones(4), np.zeros(2)), labels, 2)


def after(said: list[int], name: str = "retain test old") -> Snapshot:
    return Snapshot(1, "global", {name: evaluation(said)}, torch.zeros(1))


def test_share_and_forgetting_by_hand() -> None:
    metric = Retention()
    assert not metric.begun
    # Three of four right: 1/2 of class 0 and all of class 1.
    metric.begin({"retain test old": evaluation([0, 1, 1, 1])})
    # Class 0 gains 1/2, class 1 loses all: 2 of 4 are right.
    metric.update(after([0, 0, 0, 0]))
    found = metric.compute()
    assert found["share"] == pytest.approx(0.5 / 0.75)
    assert found["forgetting"] == pytest.approx(0.5)
    assert found["sets"]["old"] == {
        "start": 0.75,
        "accuracy": 0.5,
        "loss": 1.0,
        "share": pytest.approx(2 / 3),
        "forgetting": 0.5,
    }
    again = Retention()
    again.restore(json.loads(json.dumps(metric.state())))
    again.update(after([0, 0, 0, 0]))
    assert again.compute() == found


def test_the_worst_set_counts_and_a_start_that_knew_nothing_has_no_share() -> None:
    metric = Retention()
    metric.begin({"retain test a": evaluation([0, 0, 1, 1]), "retain test b": evaluation([1, 1, 0, 1])})
    both = {"retain test a": evaluation([0, 0, 1, 0]), "retain test b": evaluation([1, 1, 0, 1])}
    metric.update(Snapshot(1, "global", both, torch.zeros(1)))
    assert metric.compute()["share"] == 0.75
    metric.begin({"retain test a": evaluation([1, 1, 0, 0])})
    metric.update(after([0, 0, 0, 0], "retain test a"))
    assert metric.compute()["share"] is None


def numbers(done: Run) -> list[float]:
    return [record["retention"]["sets"]["digits"]["accuracy"] for record in done.records]


def test_a_run_records_it_and_shows_it(tmp_path: Path) -> None:
    done = run(SETTING, out=tmp_path / "run")
    assert numbers(done) == [record["test"]["accuracy"] for record in done.records]
    last = done.records[-1]["retention"]
    assert last["share"] == pytest.approx(numbers(done)[-1] / last["sets"]["digits"]["start"])
    assert "retention" in [column.title for column in Comparison([done.read]).columns]
    assert "of what the start model knew is left" in str(summarize(done.read))
    assert "Retention" in [figure.title for figure in all_figures([done.read])]
    plain = run({**SETTING, "retain": []}, out=tmp_path / "plain")
    assert "retention" not in plain.records[0]
    assert plain.weights().parameters.equal(done.weights().parameters)


@pytest.mark.parametrize("evaluation", [{}, {"every": 0, "last": 1}])
def test_a_resumed_run_has_the_same_bits(tmp_path: Path, evaluation: dict[str, int]) -> None:
    setting = {**SETTING, "evaluation": evaluation, "averaging": {"decay": 0.5}}
    run(setting, out=tmp_path / "calm")
    with pytest.raises(Stopped):
        run(setting, out=tmp_path / "broken", on_round=stop_after(2))
    resume(tmp_path / "broken")
    assert bits(tmp_path / "broken") == bits(tmp_path / "calm")


@pytest.mark.parametrize("engine", ["process", pytest.param("ray", marks=pytest.mark.slow)])
def test_engines_record_the_same(engine: str) -> None:
    assert run({**SETTING, "engine": engine}).records == run(SETTING).records


def test_runs_in_lockstep_record_it() -> None:
    values = {key: value for key, value in SETTING.items() if key != "engine"}
    alone = [run({**SETTING, "seed": seed}) for seed in (0, 1)]
    for one, other in zip(alone, run(values, seeds=[0, 1]), strict=True):
        np.testing.assert_allclose(numbers(one), numbers(other), atol=0.02)


def test_it_ends_a_run_and_rules_out_models(tmp_path: Path) -> None:
    # A start that is not random: the weights of an earlier run.
    first = run({**SETTING, "rounds": 20, "training": {"epochs": 3, "lr": 0.3}})
    torch.save(first.model().state_dict(), tmp_path / "start.pt")
    start = {**SETTING["model"], "start_from": str(tmp_path / "start.pt")}
    forgets = {
        **SETTING,
        "rounds": 6,
        "participation": 1,
        "model": start,
        "training": {"epochs": 9, "lr": 0.3},
    }
    done = run({**forgets, "stop": {"retention": 0.9}})
    assert done.status["reason"].startswith("retention 0.")
    assert done.status["reason"].endswith("fell below 0.9")
    assert done.read.latest("retention.share") < 0.9
    judged = {"judging": True, "retain_at_least": 0.6, "last": 1}
    kept = run({**forgets, "split": {"validation": 0.3}, "evaluation": judged})
    shares = [record["retention"]["share"] for record in kept.records]
    good = [record for record, share in zip(kept.records, shares, strict=True) if share >= 0.6]
    assert 0 < len(good) < len(shares)
    best = max(good, key=lambda record: record["score"]["validation"])
    assert read_outcome(kept.read).score["judging"] == best["score"]["judging"]
    impossible = replace(
        kept.read, config={**kept.read.config, "evaluation": {**judged, "retain_at_least": 1.0}}
    )
    if max(shares) < 1:
        assert read_outcome(impossible).score["judging"] == 0.0
    assert math.isfinite(read_outcome(kept.read).score["judging"])


@pytest.mark.parametrize(
    ("retain", "message"),
    [
        ([{"name": "a", "data": "diabetes"}], "retain 'a' has another task than .*: regression instead of"),
        ([{"name": "a", "data": "OTHER"}], "retain 'a' has other inputs than the clients' data"),
        ([{"name": "a", "data": "FEWER"}], "retain 'a' has other classes than .*: 3 instead of 10"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, retain: list[dict[str, str]], message: str) -> None:
    rng = np.random.default_rng(0)
    for name, classes, side in (("OTHER", 10, 5), ("FEWER", 3, 8)):
        y = np.arange(30) % classes
        x = rng.integers(0, 255, (30, side, side), np.uint8)
        np.savez(tmp_path / f"{name}.npz", x_train=x, y_train=y, x_test=x, y_test=y)
        retain = [
            {**each, "data": str(tmp_path / f"{name}.npz")} if each["data"] == name else each
            for each in retain
        ]
    with pytest.raises(InputError, match=message) as error:
        run({**SETTING, "retain": retain})
    assert "\n" not in str(error.value)


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(InputError, match="different names"):
        make_config({"retain": [{"name": "a", "data": "digits"}] * 2})
    with pytest.raises(InputError, match="need a reference set in retain"):
        make_config({"stop": {"retention": 0.9}})
    with pytest.raises(InputError, match="retain cannot be combined with method='local'"):
        run({**SETTING, "method": "local"})
