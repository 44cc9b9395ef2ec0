"""Clients that the data came with."""

import numpy as np
import pytest

from eunoe.data.partitions.without_labels import Natural
from eunoe.errors import InputError

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
