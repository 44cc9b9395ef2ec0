"""Every model on every client's data, by hand."""

import numpy as np
import pytest

from eunoe.metrics.local_models import ClientMatrix
from tests.helpers import blobs
from tests.metrics.snapshots import ON_TEST, evaluation, found, snapshot


def test_the_matrix_on_the_test_set_is_in_each_clients_mix() -> None:
    assert found(ClientMatrix(), *ON_TEST) == {
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
    assert found(metric, start, local) == {
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
    said = found(metric, snapshot("start", {"validation": evaluation([0, 0, 1, 0], [0, 0, 2, 2])}))
    assert said["start"][::2] == [1.0, 0.5]
    assert np.isnan(said["start"][1])


def test_without_label_counts_there_is_no_matrix() -> None:
    uncounted = [ON_TEST[0], snapshot("local", {"test": evaluation([0, 0, 0, 0])}, 3)]
    assert found(ClientMatrix(), *uncounted) == {}
