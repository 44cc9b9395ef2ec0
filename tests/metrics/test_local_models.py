"""The probes' metrics, by hand."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.data.samples import Samples
from eunoe.metrics import Snapshot
from eunoe.metrics.local_models import ClientMatrix, Drift, LocalPerClass, Probability
from tests.helpers import blobs
from tests.metrics.snapshots import ON_TEST, compute, evaluation, snapshot
from tests.waiting import PATIENCE

# ClientMatrix


def test_the_matrix_on_the_test_set_is_in_each_clients_mix() -> None:
    assert compute(ClientMatrix(), *ON_TEST) == {
        "models": [3, 5],
        "data": [3, 5],
        "on": "test",
        "start": [1.0, 0.25 * 1.0 + 0.75 * 0.5],
        "after": [[1.0, 0.25], [0.5, 0.25 * 0.5 + 0.75 * 1.0]],
    }


def test_the_matrix_on_validation_parts_is_by_owner() -> None:
    federation = blobs(clients=4)
    metric = ClientMatrix(data="participants")
    rows = metric.rows(federation, [1, 3], 0)["validation"]
    assert set(rows.owners.tolist()) == {1, 3}
    owners = [1, 3, 3, 3]
    start = snapshot("start", {"validation": evaluation([0, 0, 1, 0], owners)})
    local = snapshot("local", {"validation": evaluation([1, 0, 1, 1], owners)}, 3, [1, 3])
    assert compute(metric, start, local) == {
        "models": [3],
        "data": [1, 3],
        "on": "validation",
        "start": [1.0, pytest.approx(2 / 3)],
        "after": [[0.0, 1.0]],
    }


def test_a_client_without_validation_samples_has_no_accuracy() -> None:
    federation = blobs(clients=3)
    metric = ClientMatrix(data="clients")
    metric.rows(federation, [0], 0)
    said = compute(metric, snapshot("start", {"validation": evaluation([0, 0, 1, 0], [0, 0, 2, 2])}))
    assert said["start"][::2] == [1.0, 0.5]
    assert np.isnan(said["start"][1])


def test_without_label_counts_there_is_no_matrix() -> None:
    uncounted = [ON_TEST[0], snapshot("local", {"test": evaluation([0, 0, 0, 0])}, 3)]
    assert compute(ClientMatrix(), *uncounted) == {}


# LocalPerClass


def test_accuracy_by_class_before_after_and_merged() -> None:
    metric = LocalPerClass()
    for _ in range(2):
        # A second round knows nothing of the first.
        assert compute(metric, *ON_TEST) == {
            "clients": [3, 5],
            "start": [1.0, 0.5],
            "local": [[1.0, 0.0], [0.5, 1.0]],
            "merged": [1.0, 1.0],
            "counts": [[4, 0], [1, 3]],
            "loss": {"start": 1.0, "local": [2.0, 3.0], "merged": 0.5},
        }


def test_classes_without_label_counts_have_none() -> None:
    uncounted = [ON_TEST[0], snapshot("local", {"test": evaluation([0, 0, 0, 0])}, 3), ON_TEST[3]]
    assert compute(LocalPerClass(), *uncounted)["counts"] is None


def test_accuracy_by_class_needs_a_test_set() -> None:
    federation = blobs()
    test = federation.data.test
    without = replace(federation.data, test=Samples(test.x[:0], test.y[:0]))
    assert LocalPerClass().possible(federation)
    assert not LocalPerClass().possible(replace(federation, data=without))


# Probability


def test_mean_probabilities_on_the_public_set() -> None:
    models = [
        snapshot("local", {"public": evaluation([0, 0, 0, 1])}, client, [client, 1]) for client in (3, 5)
    ]
    assert compute(Probability(), *models) == {
        "clients": [3, 5],
        "probability": [[0.75, 0.25], [0.75, 0.25]],
        "counts": [[3, 1], [5, 1]],
    }


def test_probabilities_need_a_public_set() -> None:
    assert Probability().possible(blobs(public=0.2))
    assert not Probability().possible(blobs())


# Drift


def test_drift_by_hand() -> None:
    def moved(role: Any, values: list[float], client: int | None = None) -> Snapshot:
        return Snapshot(1, role, {}, torch.tensor(values), client)

    models = [moved("start", [1.0, 1.0]), moved("local", [4.0, 1.0], 3), moved("local", [1.0, 5.0], 5)]
    metric = Drift()
    for _ in range(2):
        said = compute(metric, *models)
        assert said["clients"] == [3, 5]
        assert said["from_start"] == [3.0, 4.0]
        assert said["apart"] == pytest.approx(5.0)
        assert said["cosine"] == pytest.approx(0.0)


THREADED = (
    "rounds=1",
    "participation=3",
    # Long enough vectors for BLAS to use its threads.
    "model.hidden=[3000]",
    "training.steps=1",
    'probes=[{metric = "drift", every = 1}, {metric = "client_matrix", every = 1, data = "test"}]',
)


@pytest.mark.slow
def test_probes_have_the_same_bits_with_one_thread_and_with_four(tmp_path: Path) -> None:
    written = []
    for threads in ("1", "4"):
        out = tmp_path / threads
        settings = [part for setting in THREADED for part in ("--set", setting)]
        command = ["run", "--engine", "serial", "--no-report", "--out", str(out), *settings]
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        subprocess.run(
            [sys.executable, "-m", "eunoe", *command], env=environment, check=True, timeout=PATIENCE
        )
        written.append((out / "probes.jsonl").read_bytes())
    assert written[0] == written[1]
    assert written[0].count(b"\n") == 2
