"""Partitions that do not use labels."""

import numpy as np
import pytest

from eunoe.data.partitions.without_labels import Iid, Natural, Quantity
from eunoe.errors import InputError


def test_iid_uses_all_samples_in_sizes_that_differ_by_one() -> None:
    order, offsets = Iid(clients=3)(np.zeros(11, np.int64), np.random.default_rng(0))
    assert sorted(order) == list(range(11))
    assert sorted(np.diff(offsets)) == [3, 4, 4]


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
    with pytest.raises(InputError, match="is above the 2 samples per client"):
        Quantity(clients=4, min_size=3)(np.zeros(11, np.int64), np.random.default_rng(0))


WRITERS = np.array(["eve", "bob", "eve", "ann", "bob", "eve"])
LABELS = np.arange(6)


def test_natural_gives_each_writer_a_client_in_the_order_of_the_ids() -> None:
    order, offsets = Natural()(LABELS, np.random.default_rng(0), WRITERS)
    assert offsets.tolist() == [0, 1, 3, 6]
    assert order.tolist() == [3, 1, 4, 0, 2, 5]


def test_natural_leaves_out_small_writers() -> None:
    order, offsets = Natural(min_size=2)(LABELS, np.random.default_rng(0), WRITERS)
    assert offsets.tolist() == [0, 2, 5]
    assert order.tolist() == [1, 4, 0, 2, 5]


def test_natural_keeps_a_number_of_writers_chosen_at_random() -> None:
    kept = {tuple(Natural(clients=1)(LABELS, np.random.default_rng(seed), WRITERS)[0]) for seed in range(20)}
    assert kept == {(3,), (1, 4), (0, 2, 5)}


def test_natural_needs_writers_and_enough_of_them() -> None:
    with pytest.raises(InputError, match="needs a group id"):
        Natural()(LABELS, np.random.default_rng(0))
    with pytest.raises(InputError, match="2 of 3 groups have min_size = 2 samples; 3 are needed"):
        Natural(clients=3, min_size=2)(LABELS, np.random.default_rng(0), WRITERS)
    with pytest.raises(InputError, match="6 samples have 5 group ids"):
        Natural()(LABELS, np.random.default_rng(0), WRITERS[:5])
