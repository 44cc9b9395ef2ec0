"""The equal-size Dirichlet partition against numbers worked by hand and the papers' one-by-one draw."""

import numpy as np

from eunoe.data.partitions.by_class import Dirichlet, draw


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
