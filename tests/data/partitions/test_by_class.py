"""Partitions by class: numbers worked by hand, and those of the papers."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.data.partitions.by_class import Classes, Dirichlet, DirichletByClass, Shards, block_size, draw
from eunoe.errors import InputError


def counts(labels: np.ndarray, order: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    matrix = np.zeros((len(offsets) - 1, labels.max() + 1), int)
    np.add.at(matrix, (owner, labels[order]), 1)
    return matrix


def one_by_one(mix: np.ndarray, left: np.ndarray, size: int, generator: np.random.Generator) -> np.ndarray:
    taken = np.zeros(len(left), int)
    for _ in range(size):
        allowed = np.where(taken < left, mix, 0)
        taken[generator.choice(len(left), p=allowed / allowed.sum())] += 1
    return taken


def test_every_client_has_the_same_size_even_where_rows_run_dry() -> None:
    labels = np.repeat(np.arange(10), 5000)
    order, offsets = Dirichlet(clients=100, alpha=0.01)(labels, np.random.default_rng(0))
    assert (np.diff(offsets) == 500).all()
    assert len(order) == 50_000


def test_samples_left_over_by_rounding_have_no_owner() -> None:
    order, offsets = Dirichlet(clients=3, alpha=1)(np.arange(11) % 2, np.random.default_rng(0))
    assert len(order) == 9
    assert offsets.tolist() == [0, 3, 6, 9]


def test_concentration_sets_how_many_classes_a_client_has() -> None:
    labels = np.repeat(np.arange(10), 1000)

    def classes(alpha: float) -> float:
        matrix = counts(labels, *Dirichlet(clients=50, alpha=alpha)(labels, np.random.default_rng(3)))
        return float((matrix > 0).sum(1).mean())

    assert classes(0.01) < 2 < classes(0.1) < 6 < classes(1) < 9.5 < classes(100)


def test_a_client_takes_what_the_stock_allows_and_fills_up_from_what_is_left() -> None:
    generator = np.random.default_rng(0)
    # All mass is on class 0, of which two are left: the other three can only be of class 2.
    np.testing.assert_array_equal(draw(np.array([1.0, 0, 0]), np.array([2, 0, 9]), 5, generator), [2, 0, 3])
    # Class 0 gives its one sample whatever happens, the last class the rest.
    np.testing.assert_array_equal(draw(np.array([0.999, 0.001]), np.array([1, 40]), 40, generator), [1, 39])
    # A mass too small to be renormalized counts as none.
    np.testing.assert_array_equal(draw(np.array([1.0, 1e-300]), np.array([1, 4]), 4, generator), [1, 3])


def test_counts_are_distributed_as_by_the_one_by_one_draw() -> None:
    mix, left, size, draws = np.array([0.6, 0.3, 0.1]), np.array([3, 3, 6]), 7, 4000
    generator = np.random.default_rng(5)
    ours = [tuple(draw(mix, left, size, generator).tolist()) for _ in range(draws)]
    theirs = [tuple(one_by_one(mix, left, size, generator).tolist()) for _ in range(draws)]
    for outcome in set(ours) | set(theirs):
        a, b = ours.count(outcome) / draws, theirs.count(outcome) / draws
        # Five standard errors of the difference of two shares.
        assert abs(a - b) <= 5 * np.sqrt(((a + b) / 2 + 1 / draws) * 2 / draws), outcome


def test_class_numbers_that_do_not_occur_take_no_mass() -> None:
    order, _ = Dirichlet(clients=4, alpha=0.01)(np.repeat([3, 1_000_000], 20), np.random.default_rng(0))
    assert len(order) == 40


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
    with pytest.raises(InputError, match="is above the 9 samples per client"):
        DirichletByClass(clients=10, alpha=1)(np.zeros(99, np.int64), np.random.default_rng(0))


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


MNIST = np.array([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])


def test_96_clients_of_two_blocks_on_the_labels_of_mnist() -> None:
    size = block_size(MNIST, 192)
    assert size == 306
    assert (MNIST // size).sum() == 193
    assert (MNIST // (size + 1)).sum() < 192
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), MNIST))
    order, offsets = Shards(clients=96, shards=2)(labels, np.random.default_rng(0))
    assert len(order) == 58_752
    assert (np.diff(offsets) == 612).all()
    blocks = labels[order].reshape(192, 306)
    assert (blocks == blocks[:, :1]).all()


def test_block_size_by_hand() -> None:
    # 7 // 3 + 5 // 3 = 3 blocks of three; of four there would be two only.
    assert block_size(np.array([7, 5]), 3) == 3
    assert block_size(np.array([7, 5]), 12) == 1
    assert block_size(np.array([7, 5]), 1) == 7


def test_more_shards_than_samples_are_refused() -> None:
    with pytest.raises(InputError, match="12 samples cannot be cut into 14 shards"):
        Shards(clients=7, shards=2)(np.repeat([0, 1], 6), np.random.default_rng(0))
