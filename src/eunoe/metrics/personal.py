"""What clients gain when the global model predicts with their own class shares (WSM paper, appendix A.4).

Each client gets a part of the test set drawn in the proportions of its training labels, and the model
predicts argmax z_c there, and argmax z_c + log p_c with p the shares of its training labels. Neither the
prior nor the draw looks at what the client is tested on beyond the class of each test sample.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eunoe.core.flat_model import Weights
from eunoe.core.rng import generator
from eunoe.engines.base import Engine, Rows
from eunoe.training.simulation import Simulation

Integers = NDArray[np.int64]


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


def personal_accuracy(simulation: Simulation, engine: Engine, weights: Weights, size: int) -> dict[str, Any]:
    """Accuracy on the clients' parts of the test set, with and without priors; empty if none has any."""
    federation = simulation.federation
    labels = federation.data.test.y.numpy()
    by_class = [np.flatnonzero(labels == label) for label in range(federation.classes)]
    parts = [
        personal_rows(by_class, own, size, generator(simulation.context.seed, "personal test", client=client))
        for client, own in enumerate(federation.all_counts())
    ]
    rows, owners = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    if not len(rows):
        return {}
    right = {
        name: engine.evaluate([weights], Rows("test", rows, owners, prior))[0].classes == labels[rows]
        for name, prior in (("without_prior", False), ("with_prior", True))
    }
    # Clients have equally many samples, so the mean over samples is the mean over clients.
    accuracy = {name: float(hits.mean()) for name, hits in right.items()}
    return {"personal": {"clients": len(np.unique(owners)), **accuracy}}
