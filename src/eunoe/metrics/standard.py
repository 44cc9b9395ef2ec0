"""The standard metrics of every evaluated model, on each set of samples."""

from typing import Any

import numpy as np
from pydantic import Field

from eunoe.core.tasks import EVERY, LABELED
from eunoe.metrics.base import Evaluation, EvaluationMetric
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
        if evaluation.owners is None:
            return None
        return spread(() if evaluation.by_owner is None else evaluation.by_owner)._asdict()


class ByClient(EvaluationMetric):
    """Number of samples, accuracy (multilabel: fraction of correct labels) and mean loss of each client that
    owns samples; regression: loss only."""

    tasks = EVERY

    most: int = Field(100, ge=0, description="Nothing is recorded with more clients than this.")

    def measure(self, evaluation: Evaluation) -> dict[str, Any] | None:
        if evaluation.owners is None:
            return None
        owned = evaluation.owners >= 0
        clients, owner, samples = np.unique(evaluation.owners[owned], return_inverse=True, return_counts=True)
        if len(clients) > self.most:
            return None
        accuracy = np.bincount(owner, evaluation.scores[owned]) / samples
        loss = np.bincount(owner, evaluation.predictions.losses[owned]) / samples
        return {
            "clients": clients.tolist(),
            "samples": samples.tolist(),
            **({"accuracy": accuracy.tolist()} if evaluation.task.name in LABELED else {}),
            "loss": loss.tolist(),
        }
