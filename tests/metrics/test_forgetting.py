"""The forgetting metrics against numbers worked by hand and against the properties that define them."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from eunoe.metrics import forgetting

NAN = float("nan")
shares = st.one_of(st.floats(0, 1, width=32), st.just(NAN))
accuracies = st.floats(0, 1, width=32)


def table(
    rows: int, columns: int, elements: st.SearchStrategy[float] = shares
) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, (rows, columns), elements=elements)


@pytest.fixture(autouse=True)
def _no_warnings():
    """An all-NaN mean or a division by zero must be handled, not warned about."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_per_class_accuracy_by_hand():
    accuracy = forgetting.per_class_accuracy([0, 0, 1, 1, 2], [0, 1, 1, 1, 0], 4)
    np.testing.assert_array_equal(accuracy, [0.5, 2 / 3, NAN, NAN])


def test_per_class_accuracy_without_samples_is_unknown():
    empty = np.array([], dtype=np.int64)
    assert np.isnan(forgetting.per_class_accuracy(empty, empty, 3)).all()


def test_round_forgetting_by_hand():
    # Losses are 0.2, a gain that counts as 0, and a class without test samples: 0.2 / 2.
    assert forgetting.round_forgetting([0.8, 0.1, NAN], [0.6, 0.9, NAN]) == pytest.approx(0.1)


@given(table(2, 5))
def test_round_forgetting_is_unchanged_by_classes_without_data(pair):
    known = ~np.isnan(pair).any(axis=0)
    whole = forgetting.round_forgetting(*pair)
    if known.any():
        assert 0 <= whole == pytest.approx(forgetting.round_forgetting(*pair[:, known]))
    else:
        assert np.isnan(whole)


@given(arrays(np.float64, 4, elements=accuracies))
def test_nothing_is_forgotten_when_nothing_changes(start):
    same = np.tile(start, (3, 1))
    assert forgetting.round_forgetting(start, start) == 0
    assert forgetting.fedntd_score(same) == 0
    assert not forgetting.client_forgetting(start, same, [0, 1, 2], [0, 1, 2, 3]).matrix.any()
    lost = forgetting.knowledge_lost(start, same, start)
    assert lost.local == pytest.approx(0)
    assert lost.aggregation == 0


def test_fedntd_score_by_hand():
    # Best earlier minus last: 0.9 - 0.4, 0.2 - 0.7, and a class without test samples.
    history = [[0.5, 0.2, NAN], [0.9, 0.1, NAN], [0.4, 0.7, NAN]]
    assert forgetting.fedntd_score(history) == pytest.approx((0.5 - 0.5) / 2)
    assert np.isnan(forgetting.fedntd_score(history[:1]))


@given(table(6, 3, accuracies))
def test_fedntd_score_of_rising_curves_is_not_positive(values):
    assert forgetting.fedntd_score(np.maximum.accumulate(values, axis=0)) <= 0


@given(table(4, 3), st.permutations(range(3)))
def test_fedntd_score_ignores_the_order_of_earlier_rounds(history, order):
    shuffled = np.concatenate([history[order], history[3:]])
    assert forgetting.fedntd_score(shuffled) == pytest.approx(forgetting.fedntd_score(history), nan_ok=True)


def test_spread_by_hand():
    values = [*np.arange(1, 12) / 10, NAN]  # eleven known clients: the worst tenth is two of them
    result = forgetting.spread(values)
    assert result.mean == pytest.approx(0.6)
    assert result.deviation == pytest.approx(np.sqrt(0.1))
    assert result.worst_tenth == pytest.approx(0.15)
    assert np.isnan(forgetting.spread([NAN])).all()


def test_client_forgetting_by_hand():
    result = forgetting.client_forgetting(
        [0.8, 0.6, NAN], [[0.9, 0.2, NAN], [0.3, 0.7, NAN]], [7, 9], [7, 9, 4]
    )
    np.testing.assert_allclose(result.matrix, [[-0.1, 0.4, NAN], [0.5, -0.1, NAN]])
    np.testing.assert_allclose(result.by_model, [0.4, 0.5])


@given(table(1, 4), table(4, 4), st.permutations(range(4)))
def test_permuting_clients_permutes_client_forgetting(start, after, order):
    owners = np.array([3, 1, 4, 2])
    plain = forgetting.client_forgetting(start[0], after, owners, owners)
    moved = forgetting.client_forgetting(
        start[0][order], after[order][:, order], owners[order], owners[order]
    )
    np.testing.assert_array_equal(moved.matrix, plain.matrix[order][:, order])
    np.testing.assert_allclose(moved.by_model, plain.by_model[order], atol=1e-12)


def test_a_client_alone_with_its_own_data_has_no_client_forgetting():
    result = forgetting.client_forgetting([0.5], [[0.1]], [0], [0])
    assert np.isnan(result.by_model).all()


def test_accounting_by_hand():
    result = forgetting.accounting([0.8, 0.5], [[0.4, 0.5], [0.6, 0.9]], [0.7, 0.4])
    np.testing.assert_allclose(result.local, [0.3, -0.2])
    np.testing.assert_allclose(result.aggregation, [-0.2, 0.3])


@given(table(1, 5), table(3, 5), table(1, 5))
def test_accounting_sums_to_the_change(start, local, merged):
    result = forgetting.accounting(start[0], local, merged[0])
    change = np.where(np.isnan(local).all(axis=0), NAN, start[0] - merged[0])
    np.testing.assert_allclose(result.local + result.aggregation, change, rtol=0, atol=1e-15)


def test_knowledge_lost_by_hand():
    result = forgetting.knowledge_lost([0.8, 0.5, NAN], [[0.4, 0.6, NAN], [0.7, 0.1, NAN]], [0.5, 0.7, NAN])
    # Local: 0.4 and 0.1 of class 0, 0 and 0.4 of class 1. Merge: 0.7 - 0.5 of class 0, nothing of class 1.
    assert (result.local, result.aggregation) == pytest.approx((0.225, 0.1))


@given(table(1, 3), table(4, 3), table(1, 3))
def test_knowledge_lost_is_never_negative_and_bounds_the_round(start, local, merged):
    lost = forgetting.knowledge_lost(start[0], local, merged[0])
    assert np.isnan(lost.local) or 0 <= lost.local <= 1
    assert np.isnan(lost.aggregation) or 0 <= lost.aggregation <= 1
    if not np.isnan([*start[0], *local.ravel(), *merged[0]]).any():
        # What a round lost was lost locally or in aggregation.
        assert forgetting.round_forgetting(start[0], merged[0]) <= lost.local + lost.aggregation + 1e-12


def test_rounds_to_accuracy_by_hand():
    curve = [0.1, NAN, 0.3, 0.2, 0.39]
    found = forgetting.rounds_to_accuracy(curve, [1, 2, 4, 6, 8], (0.25, 0.75, 0.95, 1.0), target=0.4)
    assert found == [1, 4, 8, None]


def test_area_under_curve_by_hand():
    assert forgetting.area_under_curve([0.0, 1.0, NAN, 1.0], [1, 2, 3, 5]) == pytest.approx((0.5 + 3) / 4)
    assert forgetting.area_under_curve([0.7], [3]) == pytest.approx(0.7)
    assert np.isnan(forgetting.area_under_curve([NAN], [3]))


def test_a_mean_over_rounds_does_not_depend_on_where_they_were_measured_densely():
    # Rounds 2 to 10 lose what round 10 did, rounds 11 to 20 what round 20 did, and two for themselves.
    found = forgetting.mean_over_rounds([NAN, 0.2, NAN, 0.1, 0.4, 0.6], [9, 10, 19, 20, 21, 22])
    assert found == pytest.approx((9 * 0.2 + 10 * 0.1 + 0.4 + 0.6) / 21)
    each = [0.3, 0.1, 0.7]
    assert forgetting.mean_over_rounds([NAN, *each], [1, 2, 3, 4]) == np.mean(each)
    assert forgetting.mean_over_rounds(each, [1, 2, 3]) == np.mean(each)
    assert np.isnan(forgetting.mean_over_rounds([], []))
    assert np.isnan(forgetting.mean_over_rounds([NAN], [1]))


def drift(updates):
    total = forgetting.DriftSum()
    for update in updates:
        total.add(update)
    return total.result()


@given(arrays(np.float64, (5, 3), elements=st.integers(-9, 9).map(float)))
def test_drift_equals_all_pairs(models):
    updates = models - np.array([1.0, -2.0, 3.0])
    lengths, far, cosine = drift(updates)
    pairs = [(i, j) for i in range(5) for j in range(i)]
    np.testing.assert_allclose(lengths, np.linalg.norm(updates, axis=1))
    apart = np.mean([np.sum((models[i] - models[j]) ** 2) for i, j in pairs]) ** 0.5
    assert far == pytest.approx(apart, abs=1e-6)
    moved = [update / np.linalg.norm(update) for update in updates if update.any()]
    cosines = [moved[i] @ moved[j] for i in range(len(moved)) for j in range(i)]
    assert cosine == pytest.approx(np.mean(cosines) if cosines else NAN, abs=1e-9, nan_ok=True)


def test_drift_of_one_model_has_no_pairs():
    lengths, *pairs = drift([[3.0, 4.0]])
    assert lengths == pytest.approx([5.0])
    assert np.isnan(pairs).all()


def test_correlation_with_counts_by_hand():
    shares = forgetting.count_shares([[8, 0, 0], [4, 2, 0]])
    np.testing.assert_allclose(shares, [[1, 0, NAN], [0.5, 1, NAN]])
    found = forgetting.correlation(shares, np.array([[0.9, 0.1, 0.0], [0.5, 0.5, 0.0]]))
    assert found == pytest.approx(np.corrcoef([1, 0, 0.5, 1], [0.9, 0.1, 0.5, 0.5])[0, 1])
    assert np.isnan(forgetting.correlation(forgetting.count_shares([[3, 3]]), np.array([[0.5, 0.5]])))


def test_reweighted_accuracy_by_hand():
    per_class = [[1.0, 0.5, NAN], [0.0, 0.2, NAN]]
    result = forgetting.reweighted_accuracy(per_class, [[1, 3, 6], [0, 0, 5]])
    np.testing.assert_allclose(result, [[0.625, NAN], [0.15, NAN]])
    np.testing.assert_allclose(forgetting.reweighted_accuracy(per_class[0], [[1, 3, 6]]), [0.625])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_reweighting_to_the_true_mix_gives_the_plain_accuracy(samples):
    predicted, labels = np.array(samples).T
    per_class = forgetting.per_class_accuracy(predicted, labels, 4)
    reweighted = forgetting.reweighted_accuracy(per_class, np.bincount(labels, minlength=4)[None])
    assert reweighted[0] == pytest.approx(np.mean(predicted == labels))


def test_the_end_of_a_run_is_its_last_rounds_as_far_as_they_were_measured():
    assert forgetting.mean_at_end([0.1, 0.2, 0.6], [1, 9, 10], 2) == pytest.approx(0.4)
    assert forgetting.mean_at_end([np.nan, 0.2], [1, 2], 10) == 0.2
    assert forgetting.mean_at_end([0.1, 0.2], [1, 2], 0) == 0.2
    assert np.isnan(forgetting.mean_at_end([], [], 10))


def test_the_running_mean_leaves_out_what_is_unknown() -> None:
    found = forgetting.running_mean([np.nan, 2.0, 4.0, np.nan, np.nan, 9.0], 2)
    np.testing.assert_allclose(found, [np.nan, 2.0, 3.0, 4.0, np.nan, 9.0])


def test_counts_are_shares_of_the_most_that_any_client_has():
    shares = forgetting.count_shares([[4, 2]], most=[8, 2])
    assert shares.tolist() == [[0.5, 1.0]]
    assert forgetting.correlation(shares, np.array([[0.9, 0.1]])) == pytest.approx(-1.0)
