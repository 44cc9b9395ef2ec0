"""The Dirichlet partition by class: unequal sizes, a least size, a bounded search."""

import itertools

import numpy as np
import pytest

from eunoe.data.partitions.by_class import DirichletByClass
from eunoe.errors import InputError


def test_sizes_are_unequal_but_not_below_the_least() -> None:
    labels = np.repeat(np.arange(10), 5000)
    for seed in range(3):
        order, offsets = DirichletByClass(clients=100, alpha=0.1)(labels, np.random.default_rng(seed))
        sizes = np.diff(offsets)
        assert len(order) == 50_000
        assert sizes.min() >= 10
        assert 1000 < sizes.max() < 6000


def test_a_client_that_is_full_gets_no_further_class() -> None:
    labels = np.repeat(np.arange(20), 500)
    order, offsets = DirichletByClass(clients=20, alpha=0.5)(labels, np.random.default_rng(0))
    for first, last in itertools.pairwise(offsets):
        counts = np.bincount(labels[order[first:last]], minlength=20)
        so_far = np.cumsum(counts) - counts
        assert (counts[so_far >= 500] == 0).all()


def test_a_large_concentration_divides_each_class_evenly() -> None:
    labels = np.repeat(np.arange(3), 400)
    order, offsets = DirichletByClass(clients=4, alpha=1e6)(labels, np.random.default_rng(0))
    for first, last in itertools.pairwise(offsets):
        assert np.bincount(labels[order[first:last]]) == pytest.approx([100] * 3, abs=2)


def test_a_mass_that_falls_on_full_clients_only_goes_to_another() -> None:
    # At this concentration each class has one owner; in half the seeds both have the same.
    for seed in range(12):
        order, offsets = DirichletByClass(clients=2, alpha=1e-12)(
            np.repeat([0, 1], 10), np.random.default_rng(seed)
        )
        assert offsets.tolist() == [0, 10, 20]
        assert len(order) == 20


def test_the_search_for_a_division_ends_with_what_to_change() -> None:
    labels = np.repeat(np.arange(10), 100)
    with pytest.raises(InputError, match=r"in 20 draws .* of 100 clients .* min_size = 10 .* raise alpha"):
        DirichletByClass(clients=100, alpha=0.1)(labels, np.random.default_rng(0))
    with pytest.raises(InputError, match="in 3 draws"):
        DirichletByClass(clients=100, alpha=0.01, draws=3)(labels, np.random.default_rng(0))


def test_a_least_size_beyond_the_samples_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="min_size can be at most 9"):
        DirichletByClass(clients=10, alpha=1)(np.zeros(99, np.int64), np.random.default_rng(0))
