"""The standard metrics of every evaluated model at each place."""

from typing import Any

import numpy as np

from eunoe.metrics.base import Place, PlaceMetric
from eunoe.metrics.forgetting import spread


class Accuracy(PlaceMetric):
    """Share of samples whose class is predicted right."""

    def measure(self, place: Place) -> float:
        return float(place.right.mean())


class Loss(PlaceMetric):
    """Mean cross-entropy."""

    def measure(self, place: Place) -> float:
        return place.loss


class PerClass(PlaceMetric):
    """Accuracy by class."""

    def measure(self, place: Place) -> list[float]:
        return [float(value) for value in place.per_class]


class Clients(PlaceMetric):
    """How the accuracy differs between the clients that own the samples."""

    def measure(self, place: Place) -> dict[str, Any] | None:
        if place.owners is None:
            return None
        _, owner = np.unique(place.owners, return_inverse=True)
        return spread(np.bincount(owner, place.right) / np.bincount(owner))._asdict()
