"""Accuracy of the global model with each client's class shares as a prior (WSM paper, appendix A.4).

Each client gets test samples drawn in the proportions of its training labels. The model predicts argmax z_c,
and argmax z_c + log p_c with p the shares of the training labels. Of the test samples, only the classes are
used for the prior and the draw.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import Field

from eunoe.core.rng import generator
from eunoe.data.federation import Federation
from eunoe.metrics.base import Integers, Rows, Snapshot, ValuesMetric


def draw_personal_rows(
    by_class: Sequence[Integers], counts: Integers, size: int, rng: np.random.Generator
) -> Integers:
    """Draw `size` test rows in the proportions of a client's label counts; none if no class is tested.

    Samples of a class with too few of them are repeated.
    """
    weights = np.where([len(rows) > 0 for rows in by_class], counts, 0).astype(np.float64)
    if not weights.any():
        return np.empty(0, np.int64)
    drawn = rng.multinomial(size, weights / weights.sum())
    parts = [np.resize(rng.permutation(rows), n) for rows, n in zip(by_class, drawn, strict=True) if n]
    return np.concatenate(parts)


class Personal(ValuesMetric):
    """Accuracy on test samples in each client's label distribution, with and without its class shares."""

    samples: int = Field(ge=1, description="Test samples of each client.")

    def rows(self, federation: Federation, clients: Sequence[int], seed: int) -> Mapping[str, Rows]:
        labels = federation.data.test.y.numpy()
        by_class = [np.flatnonzero(labels == label) for label in range(federation.classes)]
        parts = [
            draw_personal_rows(by_class, own, self.samples, generator(seed, "personal test", client=client))
            for client, own in enumerate(federation.all_counts())
        ]
        rows, owners = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        if not len(rows):
            return {}
        priors = {"without_prior": False, "with_prior": True}
        return {name: Rows("test", rows, owners, prior) for name, prior in priors.items()}

    def update(self, model: Snapshot) -> None:
        self._values = {}
        for name in ("without_prior", "with_prior"):
            if evaluation := model.evaluations.get(name):
                # Clients have equally many samples, so the mean over samples is the mean over clients.
                owners = len(np.unique(evaluation.owners)) if evaluation.owners is not None else 0
                self._values |= {"clients": owners, name: float(evaluation.right.mean())}
