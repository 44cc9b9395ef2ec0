"""The standard metrics of every evaluated model, on each set of samples."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from eunoe.core.tasks import EVERY, LABELED
from eunoe.metrics.base import Evaluation, EvaluationMetric, Floats, Integers
from eunoe.metrics.forgetting import spread


class Accuracy(EvaluationMetric):
    """Fraction of samples whose class is predicted correctly."""

    def measure(self, evaluation: Evaluation) -> float:
        return float(evaluation.right.mean())


class Loss(EvaluationMetric):
    """Mean plain loss: cross-entropy, or the squared error of standardized targets."""

    tasks = EVERY

    def measure(self, evaluation: Evaluation) -> float:
        return evaluation.loss


class PerClass(EvaluationMetric):
    """Accuracy by class, or balanced accuracy by label."""

    tasks = LABELED

    def measure(self, evaluation: Evaluation) -> list[float]:
        return [float(value) for value in evaluation.per_class]


class Clients(EvaluationMetric):
    """Mean, deviation and worst tenth over clients of accuracy (multilabel: fraction of correct labels) or
    explained variance."""

    tasks = EVERY

    def measure(self, evaluation: Evaluation) -> dict[str, Any] | None:
        owned = _by_owner(evaluation)
        return None if owned is None else spread(owned.scores / owned.samples)._asdict()


class ByClient(EvaluationMetric):
    """Number of samples, accuracy (multilabel: fraction of correct labels) and mean loss of each client that
    owns samples; regression: loss only."""

    tasks = EVERY

    most: int = Field(100, ge=0, description="Nothing is recorded with more clients than this.")

    def measure(self, evaluation: Evaluation) -> dict[str, Any] | None:
        owned = _by_owner(evaluation)
        if owned is None or len(owned.clients) > self.most:
            return None
        losses = np.bincount(owned.owner, evaluation.predictions.losses[owned.mask])
        accuracy = {"accuracy": (owned.scores / owned.samples).tolist()}
        return {
            "clients": owned.clients.tolist(),
            "samples": owned.samples.tolist(),
            **(accuracy if evaluation.task.name in LABELED else {}),
            "loss": (losses / owned.samples).tolist(),
        }


class _ByOwner(NamedTuple):
    """The samples that have an owner, the owner of each, and samples and sum of scores by client."""

    mask: NDArray[np.bool_]
    owner: Integers
    clients: Integers
    samples: Integers
    scores: Floats


def _by_owner(evaluation: Evaluation) -> _ByOwner | None:
    if evaluation.owners is None:
        return None
    mask = evaluation.owners >= 0
    clients, owner, samples = np.unique(evaluation.owners[mask], return_inverse=True, return_counts=True)
    scores = np.asarray(np.bincount(owner, evaluation.scores[mask]), np.float64)
    return _ByOwner(mask, owner, clients, samples, scores)
