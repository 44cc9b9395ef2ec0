"""Choosing the public samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from eunoe.config.options import Public
from eunoe.data.split import PublicRows, choose_public_rows
from eunoe.errors import InputError

CIFAR = np.repeat(np.arange(10), 5000)


def choose(labels: np.ndarray, writers: np.ndarray | None = None, **options: object) -> PublicRows:
    return choose_public_rows(labels, np.random.default_rng(0), Public.model_validate(options), writers)


def test_the_flashback_papers_public_set() -> None:
    rows = choose(CIFAR, share=0.025)
    assert [len(part) for part in rows] == [1125, 125, 48_750]
    np.testing.assert_array_equal(rows.remaining, np.sort(rows.remaining))
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(50_000))


@given(
    st.lists(st.integers(4, 40), min_size=1, max_size=6),
    st.integers(1, 24),
    st.booleans(),
    st.floats(0, 0.9),
    st.integers(0, 99),
)
def test_each_row_is_in_one_part(
    sizes: list[int], count: int, balanced: bool, validation: float, seed: int
) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    count = min(count, len(sizes) * 4 - 1)
    options = Public(count=count, balanced=balanced, validation=validation)
    rows = choose_public_rows(labels, np.random.default_rng(seed), options)
    again = choose_public_rows(labels, np.random.default_rng(seed), options)
    for one, other in zip(rows, again, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(len(labels)))
    assert len(rows.train) >= 1
    assert len(rows.train) + len(rows.validation) == count
    if balanced:
        for part in (rows.train, rows.validation, np.concatenate(rows[:2])):
            found = np.bincount(labels[part], minlength=len(sizes))
            assert found.max() - found.min() <= 1


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=6),
    st.floats(0.001, 100),
    st.floats(0, 0.999),
    st.integers(0, 99),
)
def test_unequal_classes_give_the_requested_number(
    sizes: list[int], alpha: float, share: float, seed: int
) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    options = Public(count=max(1, int(share * len(labels))), alpha=alpha)
    if options.count == len(labels):
        return
    rows = choose_public_rows(labels, np.random.default_rng(seed), options)
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(len(labels)))
    assert len(rows.train) + len(rows.validation) == options.count


def test_a_small_alpha_makes_classes_unequal() -> None:
    few, many = (
        np.bincount(CIFAR[choose(CIFAR, count=1426, alpha=alpha).train], minlength=10)
        for alpha in (0.5, 1000)
    )
    assert few.sum() == many.sum() == 1283
    assert few.max() > 3 * few.min() + 100
    assert many.max() < 1.5 * many.min()


def test_unbalanced_is_as_drawn_and_balanced_is_not() -> None:
    labels = np.repeat([0, 1], [900, 100])
    assert np.bincount(labels[choose(labels, count=100, validation=0).train]) == pytest.approx(
        [90, 10], abs=9
    )
    balanced = choose(labels, count=100, validation=0, balanced=True).train
    assert np.bincount(labels[balanced]).tolist() == [50, 50]


def test_too_many_to_be_balanced() -> None:
    with pytest.raises(InputError, match="at most 20 public samples can be balanced over classes, not "):
        choose(np.repeat([0, 1], [90, 10]), count=21, balanced=True)


def test_whole_writers_of_a_least_size() -> None:
    writers = np.repeat(np.arange(20), np.arange(1, 21))
    rows = choose(np.zeros(210, np.int64), writers, groups=5, min_size=10)
    public = np.unique(writers[np.concatenate([rows.train, rows.validation])])
    assert len(public) == 5
    assert public.min() >= 9
    assert not np.isin(writers[rows.remaining], public).any()
    assert len(rows.validation) == round(0.1 * (public + 1).sum())


def test_no_public_samples_by_default() -> None:
    rows = choose(np.arange(7))
    assert [len(part) for part in rows] == [0, 0, 7]


def test_impossible_requests_are_refused() -> None:
    writers = np.arange(4) // 2
    with pytest.raises(InputError, match="none are left for the clients"):
        choose(np.arange(4), count=4)
    with pytest.raises(InputError, match="5 public samples were requested, but there are only 4"):
        choose(np.arange(4), count=5)
    with pytest.raises(InputError, match="the public data have no class labels"):
        choose(np.full(4, -1), count=2, balanced=True)
    with pytest.raises(InputError, match="none are left for the clients"):
        choose(np.arange(4), writers, groups=2)
    with pytest.raises(InputError, match="3 public groups were requested, but only 2"):
        choose(np.arange(4), writers, groups=3)
    with pytest.raises(InputError, match="the data have none"):
        choose(np.arange(4), groups=1)
    with pytest.raises(ValidationError, match="only one of"):
        Public(share=0.1, count=3)
    for chosen in ({"balanced": True}, {"alpha": 0.5}):
        with pytest.raises(ValidationError, match="do not apply to groups"):
            Public.model_validate({"groups": 3, **chosen})
    with pytest.raises(ValidationError, match="only one of balanced and alpha"):
        Public(count=3, balanced=True, alpha=0.5)
