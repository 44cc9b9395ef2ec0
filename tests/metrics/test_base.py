"""The contract of metrics, with a user's own: recorded, tracked and resumed; the test rows of probes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.errors import InputError
from eunoe.metrics import Evaluation, Predictions, Snapshot
from eunoe.metrics.base import draw_test_rows
from eunoe.simulation.running import resume, run
from eunoe.trackers import scalars
from tests.helpers import blobs
from tests.metrics.own_metric import Brier, WorstClass
from tests.waiting import run_until_killed

OWN = "tests.metrics.own_metric"
CONFIG: dict[str, Any] = {
    "rounds": 8,
    "participation": 4,
    "engine": "serial",
    "checkpoint_seconds": 0,
    "probes": [],
    "metrics": [{"name": f"{OWN}:WorstClass", "start": 0.9}, f"{OWN}:Brier"],
}


def test_it_is_recorded_under_its_own_name_and_found_there(tmp_path: Path) -> None:
    done = run(CONFIG, federation=blobs(), out=tmp_path / "run")
    rounds, values = done.series("worst_class.value")
    assert rounds.tolist() == list(range(1, 9))
    _, per_class = done.series("test.per_class")
    assert values == pytest.approx(per_class.min(axis=1))
    _, lowest = done.series("worst_class.lowest")
    assert lowest == pytest.approx(np.minimum.accumulate(np.minimum(values, 0.9)))
    _, means = done.series("worst_class.mean")
    assert means[-1] == pytest.approx(per_class.mean(axis=0), rel=1e-5)
    for evaluation in ("test", "validation"):
        assert len(done.series(f"brier.{evaluation}")[0]) == 8
    assert scalars(done.records[0])["worst_class/value"] == values[0]


def test_it_changes_nothing_else(tmp_path: Path) -> None:
    own = run(CONFIG, federation=blobs(), out=tmp_path / "own").records
    none = run({**CONFIG, "metrics": []}, federation=blobs(), out=tmp_path / "none").records
    assert [{k: v for k, v in record.items() if k not in ("worst_class", "brier")} for record in own] == none


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_every_engine_gives_it_the_logits(tmp_path: Path, engine: str) -> None:
    values = {**CONFIG, "rounds": 1, "evaluation": {"chunk": 7}}
    serial = run(values, federation=blobs(), out=tmp_path / "serial").records[0]["brier"]
    other = run({**values, "engine": engine}, federation=blobs(), out=tmp_path / engine).records[0]["brier"]
    assert other == pytest.approx(serial, rel=1e-4)
    assert engine == "vectorized" or other == serial


def test_killed_and_resumed_it_goes_on_where_it_was(tmp_path: Path) -> None:
    calm = run(CONFIG, out=tmp_path / "calm")
    run_until_killed(CONFIG, tmp_path / "killed", 3)
    resumed = resume(tmp_path / "killed")
    assert (resumed.folder / "metrics.jsonl").read_bytes() == (calm.folder / "metrics.jsonl").read_bytes()


def test_a_metric_that_joins_later_begins_there(tmp_path: Path) -> None:
    run({**CONFIG, "rounds": 3, "metrics": []}, federation=blobs(), out=tmp_path / "run")
    done = resume(tmp_path / "run", rounds=5, metrics=CONFIG["metrics"], federation=blobs())
    assert done.series("worst_class.value")[0].tolist() == [4, 5]
    assert len(done.series("forgetting.round")[0]) == 4


def test_by_hand() -> None:
    # Logits of log 3 and 0 are probabilities of 3/4 and 1/4.
    logits = np.log([[3.0, 1.0], [3.0, 1.0]])
    predictions = Predictions(np.array([0, 0]), np.zeros(2), np.zeros(2), logits)
    evaluation = Evaluation(predictions, np.array([0, 1]), 2)
    assert Brier().measure(evaluation) == pytest.approx((2 * (1 / 4) ** 2 + 2 * (3 / 4) ** 2) / 2)
    metric = WorstClass()
    metric.update(Snapshot(1, "global", {"test": evaluation}, torch.zeros(3)))
    assert metric.compute() == {"value": 0.0, "lowest": 0.0, "mean": [1.0, 0.0]}


@pytest.mark.parametrize(
    "values", [{"metrics": ["nonsense"]}, {"probes": [{"metric": "nonsense", "every": 1}]}]
)
def test_a_wrong_name_is_reported_before_anything_is_written(tmp_path: Path, values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="no metric is called 'nonsense'"):
        run({**CONFIG, **values}, federation=blobs(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_option_is_checked() -> None:
    with pytest.raises(InputError, match="has no option 'strat'; did you mean 'start'"):
        run({**CONFIG, "metrics": [{"name": f"{OWN}:WorstClass", "strat": 1.0}]}, federation=blobs())


def test_every_class_has_the_same_number_of_samples() -> None:
    federation = blobs()
    part = draw_test_rows(federation, 30, seed=0)
    assert np.bincount(federation.data.test.y.numpy()[part.rows]).tolist() == [10, 10, 10]
    assert np.array_equal(part.rows, draw_test_rows(federation, 30, seed=0).rows)
    assert not np.array_equal(part.rows, draw_test_rows(federation, 30, seed=1).rows)


def test_a_class_with_too_few_samples_gives_all_of_them() -> None:
    federation = blobs()
    part = draw_test_rows(federation, 10_000, seed=0)
    assert np.array_equal(part.rows, np.arange(60))
    assert len(draw_test_rows(federation, 1, seed=0).rows) == 3
