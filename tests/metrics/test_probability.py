"""What local models believe in, by hand."""

from eunoe.metrics.local_models import Probability
from tests.helpers import blobs
from tests.metrics.snapshots import evaluation, found, snapshot


def test_mean_probabilities_on_the_public_set() -> None:
    models = [
        snapshot("local", {"public": evaluation([0, 0, 0, 1])}, client, [client, 1]) for client in (3, 5)
    ]
    assert found(Probability(), *models) == {
        "clients": [3, 5],
        "probability": [[0.75, 0.25], [0.75, 0.25]],
        "counts": [[3, 1], [5, 1]],
    }


def test_it_needs_a_public_set() -> None:
    assert Probability().possible(blobs(public=0.2))
    assert not Probability().possible(blobs())
