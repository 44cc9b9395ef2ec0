"""Further classification metrics, each with its support.

Classes with fewer samples than `min_support` make a mean over classes noisy, so they are left out; the metric
is undefined where too few classes remain.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from eunoe.core.tasks import LABELED
from eunoe.metrics.base import Evaluation, EvaluationMetric, Integers

BINS = 15


class SupportedMetric(EvaluationMetric):
    """Base of metrics that record the number of samples and classes they are computed from.

    In multilabel tasks, a label's samples are those that have it.
    """

    tasks = LABELED

    min_support: int = Field(10, ge=1, description="Classes with fewer samples than this are left out.")

    def count_supported(self, evaluation: Evaluation) -> tuple[Integers, Integers]:
        """Return the classes with enough samples, and how many samples each has."""
        labels = evaluation.labels
        single = evaluation.task.name == "classification"
        counts = np.bincount(labels, minlength=evaluation.class_count) if single else (labels > 0).sum(axis=0)
        classes = np.flatnonzero(counts >= self.min_support)
        return classes, counts[classes]


class BalancedAccuracy(SupportedMetric):
    """Mean over classes of the accuracy of each class."""

    def measure(self, evaluation: Evaluation) -> Mapping[str, Any] | None:
        classes, counts = self.count_supported(evaluation)
        known = ~np.isnan(evaluation.per_class[classes])
        return _mean(evaluation.per_class[classes[known]], counts[known])


class MacroF1(SupportedMetric):
    """Mean over classes of F1, the harmonic mean of precision and recall."""

    def measure(self, evaluation: Evaluation) -> Mapping[str, Any] | None:
        from sklearn.metrics import f1_score

        classes, counts = self.count_supported(evaluation)
        if len(classes) < 2:
            return None
        predicted = evaluation.predictions.predicted
        values = f1_score(evaluation.labels, predicted, labels=classes, average=None, zero_division=0.0)
        return _mean(values, counts)


class AUROC(SupportedMetric):
    """Mean over classes of the area under the ROC curve of one class against the rest.

    A class counts if it has `min_support` samples and the rest has as many.
    """

    needs = ("logits",)

    def measure(self, evaluation: Evaluation) -> Mapping[str, Any] | None:
        from sklearn.metrics import roc_auc_score

        classes, counts = self.count_supported(evaluation)
        enough = len(evaluation.labels) - counts >= self.min_support
        classes, counts = classes[enough], counts[enough]
        labels, scores = evaluation.labels, evaluation.probabilities
        several = evaluation.task.name == "multilabel"
        values = [roc_auc_score(labels[:, c] > 0 if several else labels == c, scores[:, c]) for c in classes]
        return _mean(np.array(values), counts)


class CalibrationError(EvaluationMetric):
    """Expected calibration error: mean gap between confidence and accuracy in 15 bins of equal width."""

    needs = ("logits",)

    min_support: int = Field(10, ge=1, description="The metric is undefined for fewer samples than this.")

    def measure(self, evaluation: Evaluation) -> Mapping[str, Any] | None:
        samples = len(evaluation.labels)
        if samples < self.min_support:
            return None
        confidence = evaluation.probabilities.max(axis=1)
        # A confidence on the border of two bins belongs to the lower one.
        bins = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
        difference = np.bincount(bins, confidence - evaluation.right, minlength=BINS)
        return {"value": float(np.abs(difference).sum() / samples), "support": samples}


def _mean(values: Any, counts: Integers) -> Mapping[str, Any] | None:
    """Return the mean over classes with its support; None for a single class."""
    if len(counts) < 2:
        return None
    return {"value": float(np.mean(values)), "support": int(counts.sum()), "classes": len(counts)}
