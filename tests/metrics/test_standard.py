"""The standard metrics of a evaluation whose samples belong to clients."""

import pytest

from eunoe.metrics.standard import ByClient, Clients
from tests.metrics.snapshots import evaluation

# Labels are 0, 0, 1, 1: the second and the last are wrong.
SAID = [0, 1, 1, 0]


def test_each_client_has_its_own_numbers() -> None:
    found = ByClient().measure(evaluation(SAID, owners=[4, 4, 2, 4], loss=0.5))
    assert found == {
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
