"""The class-balanced part of the test set."""

import numpy as np

from eunoe.metrics.base import draw_test_rows
from tests.helpers import blobs


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
