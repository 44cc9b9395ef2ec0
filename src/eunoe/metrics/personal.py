"""What clients gain when the global model predicts with their own class shares (WSM paper, appendix A.4).

Each client gets a part of the test set drawn in the proportions of its training labels, and the model
predicts argmax z_c there, and argmax z_c + log p_c with p the shares of its training labels. Neither the
prior nor the draw looks at what the client is tested on beyond the class of each test sample.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field, PrivateAttr

from eunoe.core.rng import generator
from eunoe.data.federation import Federation
from eunoe.metrics.base import Integers, Metric, Rows, Snapshot


def personal_rows(
    by_class: Sequence[Integers], counts: Integers, size: int, rng: np.random.Generator
) -> Integers:
    """So many test rows in the mix of a client's label counts; none if it shares no class with the test set.

    A class with too few test samples gives them again.
    """
    weights = np.where([len(rows) > 0 for rows in by_class], counts, 0).astype(np.float64)
    if not weights.any():
        return np.empty(0, np.int64)
    drawn = rng.multinomial(size, weights / weights.sum())
    parts = [np.resize(rng.permutation(rows), n) for rows, n in zip(by_class, drawn, strict=True) if n]
    return np.concatenate(parts)


class Personal(Metric):
    """Accuracy on test samples in each client's label mix, with and without the client's class shares."""

    samples: int = Field(ge=1, description="Test samples of each client.")
    _found: dict[str, Any] = PrivateAttr(default_factory=dict)

    def rows(self, federation: Federation, clients: Sequence[int], seed: int) -> Mapping[str, Rows]:
        labels = federation.data.test.y.numpy()
        by_class = [np.flatnonzero(labels == label) for label in range(federation.classes)]
        parts = [
            personal_rows(by_class, own, self.samples, generator(seed, "personal test", client=client))
            for client, own in enumerate(federation.all_counts())
        ]
        rows, owners = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        if not len(rows):
            return {}
        priors = {"without_prior": False, "with_prior": True}
        return {name: Rows("test", rows, owners, prior) for name, prior in priors.items()}

    def update(self, model: Snapshot) -> None:
        self._found = {}
        for name in ("without_prior", "with_prior"):
            if place := model.places.get(name):
                # Clients have equally many samples, so the mean over samples is the mean over clients.
                owners = len(np.unique(place.owners)) if place.owners is not None else 0
                self._found |= {"clients": owners, name: float(place.right.mean())}

    def compute(self) -> Mapping[str, Any]:
        return self._found
