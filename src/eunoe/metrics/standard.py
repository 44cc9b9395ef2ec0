"""The standard metrics of every evaluated model at each place."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from eunoe.core.tasks import EVERY, LABELED
from eunoe.metrics.base import Floats, Integers, Place, PlaceMetric
from eunoe.metrics.forgetting import spread


class Accuracy(PlaceMetric):
    """Share of samples whose class is predicted right."""

    def measure(self, place: Place) -> float:
        return float(place.right.mean())


class Loss(PlaceMetric):
    """Mean plain loss: cross-entropy, or the squared error of standardized numbers."""

    tasks = EVERY

    def measure(self, place: Place) -> float:
        return place.loss


class PerClass(PlaceMetric):
    """Accuracy by class, or balanced accuracy by label."""

    tasks = LABELED

    def measure(self, place: Place) -> list[float]:
        return [float(value) for value in place.per_class]


class Clients(PlaceMetric):
    """How the accuracy (of several labels, their share that is right) or explained variance differs between
    the clients that own the samples."""

    tasks = EVERY

    def measure(self, place: Place) -> dict[str, Any] | None:
        found = _by_owner(place)
        return None if found is None else spread(found.scores / found.samples)._asdict()


class ByClient(PlaceMetric):
    """The accuracy (of several labels, their share that is right) and the mean loss of each client that owns
    samples, with how many it owns; of numbers the loss alone."""

    tasks = EVERY

    most: int = Field(100, ge=0, description="With more clients than this nothing is recorded.")

    def measure(self, place: Place) -> dict[str, Any] | None:
        found = _by_owner(place)
        if found is None or len(found.clients) > self.most:
            return None
        losses = np.bincount(found.owner, place.predictions.losses[found.kept])
        return {
            "clients": found.clients.tolist(),
            "samples": found.samples.tolist(),
            **({"accuracy": (found.scores / found.samples).tolist()} if place.task.name in LABELED else {}),
            "loss": (losses / found.samples).tolist(),
        }


class _ByOwner(NamedTuple):
    """Samples that have an owner, the owners, and how many samples each has and the sum of their scores."""

    kept: NDArray[np.bool_]
    owner: Integers
    clients: Integers
    samples: Integers
    scores: Floats


def _by_owner(place: Place) -> _ByOwner | None:
    if place.owners is None:
        return None
    kept = place.owners >= 0
    clients, owner, samples = np.unique(place.owners[kept], return_inverse=True, return_counts=True)
    scores = np.asarray(np.bincount(owner, place.scores[kept]), np.float64)
    return _ByOwner(kept, owner, clients, samples, scores)
