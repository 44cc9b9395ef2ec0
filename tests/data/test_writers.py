"""Clients that are writers, on a few samples by hand."""

import numpy as np
import pytest

from eunoe.data.writers import positions_of, writer_of_each


def test_each_client_is_the_writer_of_its_samples():
    found = writer_of_each(np.array([7, 7, 3, 5, 5, 5]), np.array([0, 2, 3, 6]))
    assert found is not None
    assert found.tolist() == [7, 3, 5]


@pytest.mark.parametrize(
    ("writers", "offsets"),
    [
        ([7, 3, 5], [0, 2, 3]),  # a client with samples of two writers
        ([7, 7, 7], [0, 2, 3]),  # a writer at two clients
        ([7, 7], [0, 2, 2]),  # a client without samples
        ([], [0]),  # no clients
    ],
)
def test_otherwise_nobody_is_a_writer(writers, offsets):
    assert writer_of_each(np.array(writers, np.int64), np.array(offsets)) is None


def test_positions_of_values_among_others():
    assert positions_of(np.array([5, 7, 4, 9]), np.array([7, 3, 5])).tolist() == [2, 0, -1, -1]
