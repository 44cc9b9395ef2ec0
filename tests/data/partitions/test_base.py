"""The index arithmetic that partitions share, and what all of them refuse."""

import numpy as np
import pytest

from eunoe.data.partitions.base import by_owner, offsets_of, ranges, rows_by_class
from eunoe.data.partitions.by_class import Dirichlet
from eunoe.errors import InputError


def test_offsets_and_ranges_by_hand() -> None:
    assert offsets_of(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert ranges(np.array([10, 7, 3]), np.array([2, 0, 3])).tolist() == [10, 11, 3, 4, 5]


def test_rows_go_to_their_owners_in_order() -> None:
    order, offsets = by_owner(np.array([5, 6, 7, 8]), np.array([2, 0, 2, 0]), clients=4)
    assert order.tolist() == [6, 8, 5, 7]
    assert offsets.tolist() == [0, 2, 2, 4, 4]


def test_rows_by_class_leave_out_classes_without_samples() -> None:
    labels = np.array([4, 1, 4, 1, 4])
    rows, starts, counts = rows_by_class(labels, np.random.default_rng(0))
    assert (starts.tolist(), counts.tolist()) == ([0, 2], [2, 3])
    assert labels[rows].tolist() == [1, 1, 4, 4, 4]
    orders = {tuple(rows_by_class(labels, np.random.default_rng(seed))[0]) for seed in range(20)}
    assert len(orders) > 1


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (np.zeros(2, np.int64), "3 clients cannot share 2 samples; use fewer"),
        (np.zeros(5), r"labels are float64 \[5\], not one integer each"),
        (np.zeros((5, 1), np.int64), "not one integer each"),
    ],
)
def test_labels_that_cannot_be_divided(labels: np.ndarray, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Dirichlet(clients=3)(labels, np.random.default_rng(0))
