"""Train, validation and test parts within each client."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.data.split import draw_test_rows, every_fifth_row, split_clients
from eunoe.errors import InputError


def sizes_of(offsets: np.ndarray, train_end: np.ndarray, validation_end: np.ndarray) -> list[list[int]]:
    return np.stack(
        [train_end - offsets[:-1], validation_end - train_end, offsets[1:] - validation_end], 1
    ).tolist()


def test_the_papers_sizes() -> None:
    offsets = np.array([0, 500, 1000])
    _, train_end, validation_end = split_clients(np.arange(1000), offsets, np.random.default_rng(0))
    assert train_end.tolist() == [450, 950]
    assert validation_end.tolist() == [500, 1000]


def test_rounding_and_small_clients_by_hand() -> None:
    offsets = np.cumsum([0, 1, 2, 3, 5, 10, 20])
    _, *ends = split_clients(np.arange(41), offsets, np.random.default_rng(0), 0.15, 0.15)
    # 0.15 * 3 = 0.45 gives none, 0.15 * 5 = 0.75 one, 0.15 * 10 = 1.5 two, 0.15 * 20 three.
    assert sizes_of(offsets, *ends) == [[1, 0, 0], [2, 0, 0], [3, 0, 0], [3, 1, 1], [6, 2, 2], [14, 3, 3]]
    _, *ends = split_clients(np.arange(41), offsets, np.random.default_rng(0), 0.5, 0.4)
    # 0.5 * 1 = 0.5 would be one, but one must be left to train on; at 2 and 3 the test part gives way.
    assert sizes_of(offsets, *ends) == [[1, 0, 0], [1, 1, 0], [1, 2, 0], [1, 3, 1], [1, 5, 4], [2, 10, 8]]
    _, *ends = split_clients(np.arange(50), np.array([0, 50]), np.random.default_rng(0), 0.29)
    assert ends[0].tolist() == [35]


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=8),
    st.floats(0, 0.6),
    st.floats(0, 0.39),
    st.integers(0, 1000),
)
def test_every_row_stays_with_its_client_and_one_is_left_to_train_on(
    sizes: list[int], validation: float, test: float, seed: int
) -> None:
    offsets = np.cumsum([0, *sizes])
    rows = np.random.default_rng(seed).permutation(offsets[-1]) * 3
    parts = split_clients(rows, offsets, np.random.default_rng(seed), validation, test)
    again = split_clients(rows, offsets, np.random.default_rng(seed), validation, test)
    for one, other in zip(parts, again, strict=True):
        np.testing.assert_array_equal(one, other)
    order, train_end, validation_end = parts
    for k, size in enumerate(sizes):
        assert sorted(order[offsets[k] : offsets[k + 1]]) == sorted(rows[offsets[k] : offsets[k + 1]])
        assert offsets[k] + min(size, 1) <= train_end[k] <= validation_end[k] <= offsets[k + 1]


def test_each_row_of_a_client_is_as_likely_to_be_validated_on() -> None:
    offsets = np.arange(0, 40_001, 10)
    order, train_end, _ = split_clients(np.arange(40_000), offsets, np.random.default_rng(0))
    assert np.bincount(order[train_end] % 10, minlength=10) == pytest.approx([400] * 10, abs=100)


def test_a_random_test_part_has_its_share_of_the_rows() -> None:
    test = draw_test_rows(10, 0.3, np.random.default_rng(0))
    assert (len(test), test.sum()) == (10, 3)
    with pytest.raises(InputError, match=r"a test share of 0.2 of 2 samples leaves one part empty"):
        draw_test_rows(2, 0.2, np.random.default_rng(0))


def test_every_fifth_row_of_each_group() -> None:
    groups = np.array([0] * 6 + [1] * 10)
    assert np.flatnonzero(every_fifth_row(groups)).tolist() == [4, 10, 15]
