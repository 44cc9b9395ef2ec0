"""What practitioners read besides accuracy, each with the support it rests on.

A class with few samples makes a mean over classes jump by chance, so that classes below `min_support` are
left out of it, and nothing is said where too little is left.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from eunoe.core.tasks import LABELED
from eunoe.metrics.base import Integers, Need, Place, PlaceMetric

BINS = 15


class SupportedMetric(PlaceMetric):
    """A metric whose value comes with the number of samples, and of classes, that it rests on.

    Of several labels, a label's samples are those that have it.
    """

    tasks = LABELED

    min_support: int = Field(
        10, ge=1, description="Samples that a class needs to count; with fewer the class is left out."
    )

    def supported(self, place: Place) -> tuple[Integers, Integers]:
        """The classes that count, and how many samples each has."""
        one_class = place.task.name == "classification"
        counts = (
            np.bincount(place.labels, minlength=place.class_count)
            if one_class
            else (place.labels > 0).sum(axis=0)
        )
        classes = np.flatnonzero(counts >= self.min_support)
        return classes, counts[classes]


class BalancedAccuracy(SupportedMetric):
    """Mean over classes of the share of a class's samples that is predicted right."""

    def measure(self, place: Place) -> Mapping[str, Any] | None:
        classes, counts = self.supported(place)
        known = ~np.isnan(place.per_class[classes])
        return _mean(place.per_class[classes[known]], counts[known])


class MacroF1(SupportedMetric):
    """Mean over classes of F1, the harmonic mean of precision and recall."""

    def measure(self, place: Place) -> Mapping[str, Any] | None:
        from sklearn.metrics import f1_score

        classes, counts = self.supported(place)
        if len(classes) < 2:
            return None
        predicted = place.predictions.predicted
        values = f1_score(place.labels, predicted, labels=classes, average=None, zero_division=0.0)
        return _mean(values, counts)


class AUROC(SupportedMetric):
    """Mean over classes of the area under the ROC curve of one class against the rest.

    A class counts if it has `min_support` samples and the rest has as many.
    """

    needs: ClassVar[tuple[Need, ...]] = ("logits",)

    def measure(self, place: Place) -> Mapping[str, Any] | None:
        from sklearn.metrics import roc_auc_score

        classes, counts = self.supported(place)
        enough = len(place.labels) - counts >= self.min_support
        classes, counts = classes[enough], counts[enough]
        several = place.task.name == "multilabel"
        there = [place.labels[:, one] > 0 if several else place.labels == one for one in classes]
        values = [
            roc_auc_score(truth, place.probabilities[:, one])
            for one, truth in zip(classes, there, strict=True)
        ]
        return _mean(np.array(values), counts)


class CalibrationError(PlaceMetric):
    """Expected calibration error: how far confidence is from accuracy, in 15 bins of equal width."""

    needs: ClassVar[tuple[Need, ...]] = ("logits",)

    min_support: int = Field(10, ge=1, description="Samples that there must be to say anything.")

    def measure(self, place: Place) -> Mapping[str, Any] | None:
        samples = len(place.labels)
        if samples < self.min_support:
            return None
        confidence = place.probabilities.max(axis=1)
        # A confidence on the border of two bins belongs to the lower one.
        bins = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
        difference = np.bincount(bins, confidence - place.right, minlength=BINS)
        return {"value": float(np.abs(difference).sum() / samples), "support": samples}


def _mean(values: Any, counts: Integers) -> Mapping[str, Any] | None:
    """The mean over classes with its support; there is none over a single class."""
    if len(counts) < 2:
        return None
    return {"value": float(np.mean(values)), "support": int(counts.sum()), "classes": len(counts)}
