"""Standard numbers from sums over samples: by hand, equal to scikit-learn's, checked if others sent them."""

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sklearn

from eunoe.core.tasks import CLASSIFICATION, MULTILABEL, Regression, Task
from eunoe.metrics.base import Evaluation, Predictions
from eunoe.metrics.classification import AUROC, BalancedAccuracy, MacroF1
from eunoe.metrics.standard import F1, MAE, R2, RMSE, ByClient, Clients, HammingLoss, SubsetAccuracy
from eunoe.metrics.sums import compute_sums, metrics_from_sums, score_from_sums, validate_sums

RNG = np.random.default_rng(0)
THERE = (RNG.random((60, 4)) < [0.5, 0.1, 0.9, 0.3]).astype(np.float32)
SCORES = RNG.normal(size=(60, 4)) + THERE
SCALE = Regression((5.0, -1.0), (3.0, 0.5))
TARGETS = RNG.normal(size=(50, 2))
OUTPUTS = TARGETS + 0.5 * RNG.normal(size=(50, 2))


def multilabel_evaluation(owners: Any = None) -> Evaluation:
    said = (SCORES > 0).astype(np.int64)
    predictions = Predictions(said, np.zeros(60), np.zeros(4), SCORES)
    return Evaluation(predictions, THERE, 4, owners, MULTILABEL)


def regression_evaluation(owners: Any = None) -> Evaluation:
    losses = ((OUTPUTS - TARGETS) ** 2).mean(1)
    return Evaluation(Predictions(OUTPUTS, losses, np.zeros(2)), TARGETS, 2, owners, SCALE)


def test_labels_are_measured_as_by_scikit_learn() -> None:
    evaluation, said = multilabel_evaluation(), SCORES > 0
    assert F1().measure(evaluation) == pytest.approx(sklearn.f1_score(THERE, said, average="macro"))
    assert SubsetAccuracy().measure(evaluation) == pytest.approx(sklearn.accuracy_score(THERE, said))
    assert HammingLoss().measure(evaluation) == pytest.approx(sklearn.hamming_loss(THERE, said))
    each = [sklearn.balanced_accuracy_score(THERE[:, one], said[:, one]) for one in range(4)]
    assert evaluation.per_class.tolist() == pytest.approx(each)


def test_numbers_are_measured_as_by_scikit_learn_in_the_units_of_the_data() -> None:
    evaluation, scale = regression_evaluation(), np.array(SCALE.std)
    targets, outputs = TARGETS * scale, OUTPUTS * scale
    assert R2().measure(evaluation) == pytest.approx(sklearn.r2_score(targets, outputs))
    assert RMSE().measure(evaluation) == pytest.approx(sklearn.root_mean_squared_error(targets, outputs))
    assert MAE().measure(evaluation) == pytest.approx(sklearn.mean_absolute_error(targets, outputs))


def test_balanced_accuracy_by_hand() -> None:
    labels = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]])
    said = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]])
    # Half of both; a label that nobody has has none; never predicted is a half, however rare.
    evaluation = Evaluation(Predictions(said, np.zeros(4), np.zeros(3)), labels, 3, None, MULTILABEL)
    np.testing.assert_array_equal(evaluation.per_class, [0.5, np.nan, 0.5])


def test_a_label_neither_there_nor_predicted_is_left_out_of_f1() -> None:
    labels, said = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[1, 0], [0, 0]])
    evaluation = Evaluation(Predictions(said, np.zeros(2), np.zeros(2)), labels, 2, None, MULTILABEL)
    assert F1().measure(evaluation) == pytest.approx(2 / 3)


def test_equal_targets_explain_nothing() -> None:
    evaluation = Evaluation(
        Predictions(np.zeros((3, 1)), np.ones(3), np.zeros(1)), np.ones((3, 1)), 1, None, Regression()
    )
    assert np.isnan(R2().measure(evaluation))
    assert RMSE().measure(evaluation) == 1.0


def test_metrics_with_support_take_labels() -> None:
    evaluation = multilabel_evaluation()
    found = AUROC(min_support=10).measure(evaluation)
    kept = [one for one in range(4) if 10 <= THERE[:, one].sum() <= 50]
    assert found is not None
    expected = np.mean([sklearn.roc_auc_score(THERE[:, one], SCORES[:, one]) for one in kept])
    assert found["value"] == pytest.approx(expected)
    assert (found["classes"], found["support"]) == (len(kept), int(THERE[:, kept].sum()))
    assert AUROC(min_support=61).measure(evaluation) is None
    many = MacroF1(min_support=1).measure(evaluation)
    assert many is not None
    assert many["value"] == pytest.approx(F1().measure(evaluation))
    balanced = BalancedAccuracy(min_support=1).measure(evaluation)
    assert balanced is not None
    assert balanced["value"] == pytest.approx(float(np.mean(evaluation.per_class)))


def test_sums_of_parts_add_up() -> None:
    for evaluation in (multilabel_evaluation(), regression_evaluation()):
        halves = [slice(20), slice(20, None)]
        parts = [
            compute_sums(
                Evaluation(
                    Predictions(
                        evaluation.predictions.predicted[part],
                        evaluation.predictions.losses[part],
                        np.zeros(1),
                    ),
                    evaluation.labels[part],
                    evaluation.class_count,
                    None,
                    evaluation.task,
                )
            )
            for part in halves
        ]
        total = {name: parts[0][name] + parts[1][name] for name in parts[0]}
        whole = metrics_from_sums(evaluation.task, compute_sums(evaluation))
        for name, value in metrics_from_sums(evaluation.task, total).items():
            assert value == pytest.approx(whole[name])
        assert score_from_sums(evaluation.task, total) == pytest.approx(float(evaluation.scores.mean()))


def test_numbers_by_client() -> None:
    owners = np.arange(60) % 3
    several = ByClient().measure(multilabel_evaluation(owners))
    assert several is not None
    right = [(((SCORES > 0) == THERE)[owners == one]).mean() for one in range(3)]
    assert several["accuracy"] == pytest.approx(right)
    evaluation = regression_evaluation(np.arange(50) % 3)
    alone = ByClient().measure(evaluation)
    assert alone is not None
    assert "accuracy" not in alone
    losses = [evaluation.predictions.losses[np.arange(50) % 3 == one].mean() for one in range(3)]
    assert alone["loss"] == pytest.approx(losses)
    over = Clients().measure(evaluation)
    assert over is not None
    assert over["worst_tenth"] == pytest.approx(1 - max(losses))


GOOD: dict[str, dict[str, Any]] = {
    "classification": {"samples": [3, 2], "right": [3, 0]},
    "multilabel": {
        "samples": [5],
        "exact": [1],
        "positives": [3, 0],
        "true_positives": [2, 0],
        "true_negatives": [1, 5],
    },
    "regression": {
        "samples": [5],
        "targets": [-1.0, 2.0],
        "squared_targets": [4.0, 4.0],
        "squared_errors": [1.0, 1.0],
        "absolute_errors": [1.0, 1.0],
    },
}
TASKS: dict[str, Task] = {"classification": CLASSIFICATION, "multilabel": MULTILABEL, "regression": SCALE}


@pytest.mark.parametrize("name", GOOD)
def test_sums_of_others_are_taken_as_they_are(name: str) -> None:
    found = validate_sums(TASKS[name], 2, GOOD[name], 10)
    assert {key: value.tolist() for key, value in found.items()} == GOOD[name]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("classification", {"right": [4, 0]}),
        ("classification", {"right": [-1, 0]}),
        ("classification", {"samples": [3, 20]}),
        ("classification", {"right": [3, 0, 0]}),
        ("multilabel", {"exact": [6]}),
        ("multilabel", {"positives": [6, 0]}),
        ("multilabel", {"true_positives": [4, 0]}),
        ("multilabel", {"true_negatives": [3, 5]}),
        ("multilabel", {"samples": [11]}),
        ("regression", {"squared_errors": [-1.0, 1.0]}),
        ("regression", {"targets": [float("nan"), 1.0]}),
        ("regression", {"absolute_errors": [float("inf"), 1.0]}),
        ("regression", {"samples": [-5]}),
    ],
)
def test_impossible_sums_are_refused(name: str, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"impossible|instead of"):
        validate_sums(TASKS[name], 2, {**GOOD[name], **change}, 10)
