"""Clients that differ in size only."""

import numpy as np
import pytest

from eunoe.data.partitions.without_labels import Quantity
from eunoe.errors import InputError


def test_quantity_uses_all_samples_and_keeps_the_least_size() -> None:
    labels = np.arange(1000) % 2
    for alpha in (0.01, 0.5, 1e6):
        order, offsets = Quantity(clients=10, alpha=alpha, min_size=7)(labels, np.random.default_rng(0))
        assert sorted(order) == list(range(1000))
        assert np.diff(offsets).min() >= 7
    assert np.diff(offsets).max() <= 101


def test_quantity_gives_nearly_all_to_one_at_a_small_concentration() -> None:
    _, offsets = Quantity(clients=10, alpha=1e-6)(np.zeros(1000, np.int64), np.random.default_rng(0))
    assert sorted(np.diff(offsets)) == [1] * 9 + [991]


def test_quantity_refuses_a_least_size_beyond_the_samples() -> None:
    with pytest.raises(InputError, match="min_size can be at most 2"):
        Quantity(clients=4, min_size=3)(np.zeros(11, np.int64), np.random.default_rng(0))
