"""The standard metrics of every evaluated model, on each set of samples."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field

from eunoe.config import registry
from eunoe.core.tasks import EVERY, LABELED
from eunoe.errors import InputError
from eunoe.metrics.base import Evaluation, EvaluationMetric, Need, select
from eunoe.metrics.forgetting import spread
from eunoe.metrics.named import recorded_name


class SumMetric(EvaluationMetric):
    """Base of the metrics that follow from sums over samples (metrics/sums.py), by their recorded names."""

    def measure(self, evaluation: Evaluation) -> Any:
        return evaluation.standard[recorded_name(":", self)]


class Accuracy(SumMetric):
    """Fraction of samples whose class is predicted correctly."""


class Loss(EvaluationMetric):
    """Mean plain loss: cross-entropy, or the squared error of standardized targets."""

    tasks = EVERY

    def measure(self, evaluation: Evaluation) -> float:
        return evaluation.loss


class PerClass(SumMetric):
    """Accuracy by class, or balanced accuracy by label."""

    tasks = LABELED


class F1(SumMetric):
    """Macro-F1: mean over labels of F1, leaving out labels that are neither present nor predicted."""

    tasks = ("multilabel",)


class SubsetAccuracy(F1):
    """Fraction of samples with every label right."""


class HammingLoss(F1):
    """Fraction of all labels of all samples that are wrong."""


class R2(SumMetric):
    """Explained share of the targets' variance, mean over outputs; negative if worse than their mean."""

    tasks = ("regression",)


class RMSE(R2):
    """Root of the mean squared error in the units of the data, mean over outputs."""


class MAE(R2):
    """Mean absolute error in the units of the data, mean over outputs."""


class TokenAccuracy(SumMetric):
    """Fraction of tokens that are predicted correctly from those before them in the block."""

    tasks = ("language_model",)


class Perplexity(Loss):
    """e to the loss per token: the number of equally likely tokens that would be as uncertain."""

    tasks = ("language_model",)

    def measure(self, evaluation: Evaluation) -> float:
        return float(np.exp(np.minimum(evaluation.loss, 690.0)))


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
    metrics: tuple[str, ...] = Field((), description="Further metrics of each client, such as auroc.")

    @property
    def needs(self) -> tuple[Need, ...]:  # type: ignore[override]
        """The needs of the further metrics."""
        return tuple({need for name in self.metrics for need in _build(name).needs})

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
            **({} if evaluation.task.name == "regression" else {"accuracy": accuracy.tolist()}),
            "loss": loss.tolist(),
            **{name: [_measure(name, evaluation, client) for client in clients] for name in self.metrics},
        }


def _build(name: str) -> EvaluationMetric:
    metric = registry.build("metric", name, {})
    if not isinstance(metric, EvaluationMetric):
        raise InputError(f"metric {name!r} cannot be measured by client")
    return metric


def _measure(name: str, evaluation: Evaluation, client: int) -> float | None:
    """Return a metric on the samples of one client; None if it is undefined, as with too few samples."""
    rows = np.asarray(evaluation.owners) == client
    own, labels = select(evaluation.predictions, rows), evaluation.labels[rows]
    return to_number(_build(name).measure(replace(evaluation, predictions=own, labels=labels, owners=None)))


def to_number(measured: Any) -> float | None:
    """Return a measured value without its support."""
    value = measured["value"] if isinstance(measured, Mapping) else measured
    return None if value is None else float(value)
