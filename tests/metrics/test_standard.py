"""The standard metrics of a evaluation whose samples belong to clients."""

import numpy as np
import pytest

from eunoe.errors import InputError
from eunoe.metrics.base import Evaluation, Predictions
from eunoe.metrics.standard import ByClient, Clients
from tests.metrics.snapshots import evaluation

# Labels are 0, 0, 1, 1: the second and the last are wrong.
SAID = [0, 1, 1, 0]


def test_each_client_has_its_own_numbers() -> None:
    numbers = ByClient().measure(evaluation(SAID, owners=[4, 4, 2, 4], loss=0.5))
    assert numbers == {
        "clients": [2, 4],
        "samples": [1, 3],
        "accuracy": [1.0, pytest.approx(1 / 3)],
        "loss": [0.5, 0.5],
    }


def test_samples_of_nobody_count_for_nobody() -> None:
    mine = evaluation(SAID, owners=[-1, -1, 2, 4])
    assert ByClient().measure(mine)["accuracy"] == [1.0, 0.0]  # type: ignore[index]
    assert Clients().measure(mine) == {"mean": 0.5, "deviation": 0.5, "worst_tenth": 0.0}


def test_many_clients_are_not_recorded_one_by_one() -> None:
    mine = evaluation(SAID, owners=[0, 1, 2, 3])
    assert ByClient(most=3).measure(mine) is None
    assert ByClient(most=4).measure(mine) is not None
    assert ByClient().measure(evaluation(SAID)) is None


def test_a_metric_on_the_samples_of_each_client() -> None:
    # Client 0 has 10 samples of either class, 9 and 5 of them right; client 2 has 3 samples, too few.
    labels = np.array([0] * 10 + [1] * 10 + [0, 1, 1])
    predicted = labels.copy()
    predicted[[0, 10, 11, 12, 13, 14]] ^= 1
    owners = np.array([0] * 20 + [2] * 3)
    whole = Evaluation(Predictions(predicted, np.ones(23), np.zeros(2)), labels, 2, owners)
    measured = ByClient(metrics=("balanced_accuracy",)).measure(whole)
    assert measured is not None
    assert measured["clients"] == [0, 2]
    assert measured["balanced_accuracy"] == [pytest.approx((0.9 + 0.5) / 2), None]
    assert measured["accuracy"] == [pytest.approx(14 / 20), 1.0]


def test_what_the_metrics_need_is_computed() -> None:
    assert ByClient(metrics=("auroc", "macro_f1")).needs == ("logits",)
    assert ByClient().needs == ()
    with pytest.raises(InputError, match="metric 'drift' cannot be measured by client"):
        _ = ByClient(metrics=("drift",)).needs
