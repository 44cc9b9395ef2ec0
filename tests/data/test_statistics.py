"""Numbers about partitions, worked by hand."""

import numpy as np
import pytest

from eunoe.data.statistics import alike, distance_by_chance, summarize

# Client 0 has classes 0, 0; client 1 has 0, 1, 2, 2; client 2 has nothing; client 3 has 2, 1.
COUNTS = np.array([[2, 0, 0], [1, 1, 2], [0, 0, 0], [0, 1, 1]])


def test_numbers_by_hand() -> None:
    numbers = summarize(COUNTS)
    assert (numbers.clients, numbers.samples) == (3, 8)
    assert (numbers.size_min, numbers.size_max) == (2, 4)
    assert numbers.size_mean == pytest.approx(8 / 3)
    assert (numbers.classes_min, numbers.classes_mean, numbers.classes_max) == (1, 2, 3)
    # 0, 1.5 and 1 bits.
    assert numbers.entropy_mean == pytest.approx(2.5 / 3)
    # All together: 3, 2, 3 of 8.
    # |1 - 3/8| + 2/8 + 3/8 = 10/8; 1/8 + 0 + 1/8 = 2/8; 3/8 + 2/8 + 1/8 = 6/8; halved.
    assert numbers.distance_mean == pytest.approx((5 / 8 + 1 / 8 + 3 / 8) / 3)
    assert numbers.single_class_share == pytest.approx(1 / 3)


def test_sizes_are_of_samples_where_they_have_several_labels() -> None:
    numbers = summarize(np.array([[1, 1, 0], [1, 2, 1]]), np.array([1, 2]))
    assert (numbers.samples, numbers.size_min, numbers.size_max, numbers.classes_mean) == (3, 1, 2, 2.5)


def test_even_mixes_have_the_largest_entropy_and_no_distance() -> None:
    numbers = summarize(np.full((5, 8), 3))
    assert (numbers.entropy_mean, numbers.distance_mean, numbers.single_class_share) == (3, 0, 0)


def test_what_chance_makes_of_one_mix_is_known_and_counts_as_alike() -> None:
    rng = np.random.default_rng(0)
    small = rng.multinomial(14, np.full(10, 0.1), size=400)
    distance = summarize(small).distance_mean
    # Ten times sqrt(2 * 0.1 * 0.9 / (pi * 14)), halved.
    assert distance_by_chance(np.full((3, 10), 14)) == pytest.approx(5 * (0.18 / (np.pi * 140)) ** 0.5)
    assert distance == pytest.approx(distance_by_chance(small), rel=0.1)
    assert distance > 0.2
    assert alike(small)
    skewed = np.stack([rng.multinomial(14, rng.dirichlet(np.full(10, 0.5))) for _ in range(400)])
    assert not alike(skewed)
    assert alike(np.array([[6, 4], [4, 6]]) * 1000)
    assert not alike(np.array([[8, 2], [2, 8]]) * 1000)
