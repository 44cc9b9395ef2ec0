"""The score that picks the best model: by hand, on several tasks."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.core.tasks import CLASSIFICATION, MULTILABEL, Regression
from eunoe.errors import InputError
from eunoe.metrics import Evaluation, Predictions, Snapshot
from eunoe.metrics.score import Score, make_score


def evaluation(predicted: list[int], owners: list[int] | None = None) -> Evaluation:
    predictions = Predictions(np.array(predicted), np.zeros(4), np.zeros(2))
    labels = np.array([0, 0, 0, 1])
    return Evaluation(predictions, labels, 2, None if owners is None else np.array(owners))


def snapshot(predicted: list[int]) -> Snapshot:
    return Snapshot(1, "global", {"validation": evaluation(predicted)}, torch.zeros(1))


@pytest.mark.parametrize(
    ("by", "score"),
    [(None, 0.5), ("worst_class", 1 / 3), ("balanced_accuracy", 2 / 3), ("worst_client", 0.0)],
)
def test_the_score_by_hand(by: Any, score: float) -> None:
    # Class 0 is right once in three, class 1 always; client 0 has nothing right, client 1 all.
    wrong_first = evaluation([1, 1, 0, 1], owners=[0, 0, 1, 1])
    assert make_score(by, CLASSIFICATION).measure(wrong_first) == pytest.approx(score)


def test_without_owners_no_client_is_the_worst() -> None:
    assert make_score("worst_client", CLASSIFICATION).measure(evaluation([0, 0, 0, 1])) is None


def test_the_best_score_is_that_of_all_rounds_and_of_a_restored_state() -> None:
    score = Score()
    assert score.state() == {}
    score.update(snapshot([0, 0, 1, 1]))
    score.update(snapshot([1, 1, 1, 1]))
    assert math.isclose(score.state()["best"], 0.75)
    again = Score()
    again.restore(score.state())
    assert not again.improves({"validation": evaluation([0, 0, 1, 1])})
    assert again.improves({"validation": evaluation([0, 0, 0, 1])})
    assert not again.improves({})


def test_a_score_supports_the_task() -> None:
    for by in ("worst_class", "auroc"):
        with pytest.raises(InputError, match=f"metric '{by}' supports classification and multilabel"):
            make_score(by, Regression())
    assert make_score("worst_class", MULTILABEL).by == "worst_class"
