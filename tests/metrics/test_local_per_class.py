"""What local training and aggregation did to each class, by hand."""

from dataclasses import replace

from eunoe.data.samples import Samples
from eunoe.metrics.local_models import LocalPerClass
from tests.helpers import blobs
from tests.metrics.snapshots import ON_TEST, evaluation, found, snapshot


def test_accuracy_by_class_before_after_and_merged() -> None:
    metric = LocalPerClass()
    for _ in range(2):
        # A second round knows nothing of the first.
        assert found(metric, *ON_TEST) == {
            "clients": [3, 5],
            "start": [1.0, 0.5],
            "local": [[1.0, 0.0], [0.5, 1.0]],
            "merged": [1.0, 1.0],
            "counts": [[4, 0], [1, 3]],
            "loss": {"start": 1.0, "local": [2.0, 3.0], "merged": 0.5},
        }


def test_without_label_counts_it_has_none() -> None:
    uncounted = [ON_TEST[0], snapshot("local", {"test": evaluation([0, 0, 0, 0])}, 3), ON_TEST[3]]
    assert found(LocalPerClass(), *uncounted)["counts"] is None


def test_it_needs_a_test_set() -> None:
    federation = blobs()
    test = federation.data.test
    without = replace(federation.data, test=Samples(test.x[:0], test.y[:0]))
    assert LocalPerClass().possible(federation)
    assert not LocalPerClass().possible(replace(federation, data=without))
