"""Clients of exactly k classes."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.data.partitions.by_class import Classes
from eunoe.errors import InputError


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=8),
    st.integers(1, 12),
    st.integers(1, 8),
    st.integers(0, 99),
)
def test_every_client_has_exactly_k_classes_wherever_that_is_possible(
    sizes: list[int], clients: int, k: int, seed: int
) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    # A class serves a client once and with one sample at least: that is all that can stand in the way.
    possible = sum(min(size, clients) for size in sizes) >= clients * k
    partition = Classes(clients=clients, classes=k)
    if not possible:
        with pytest.raises(InputError):
            partition(labels, np.random.default_rng(seed))
        return
    order, offsets = partition(labels, np.random.default_rng(seed))
    for first, last in itertools.pairwise(offsets):
        assert len(np.unique(labels[order[first:last]])) == k
    if clients * k >= len(sizes):
        assert len(order) == len(labels)


def test_balanced_classes_give_equal_sizes() -> None:
    labels = np.repeat(np.arange(10), 5000)
    order, offsets = Classes(clients=100, classes=2)(labels, np.random.default_rng(0))
    # Each class serves 100 * 2 / 10 = 20 clients with 250 samples each.
    assert (np.diff(offsets) == 500).all()
    _, counts = np.unique(labels[order[:500]], return_counts=True)
    assert counts.tolist() == [250, 250]


def test_a_class_serves_clients_in_proportion_to_its_samples() -> None:
    labels = np.repeat([0, 1], [30, 10])
    order, offsets = Classes(clients=4, classes=1)(labels, np.random.default_rng(0))
    assert (np.diff(offsets) == 10).all()
    assert sorted(labels[order[offsets[:-1]]]) == [0, 0, 0, 1]


def test_all_pairs_of_classes_occur() -> None:
    labels = np.repeat(np.arange(4), 600)
    order, offsets = Classes(clients=300, classes=2)(labels, np.random.default_rng(0))
    pairs = {tuple(np.unique(labels[order[a:b]])) for a, b in itertools.pairwise(offsets)}
    assert len(pairs) == 6
