"""The part of the test set that clients' models are measured on."""

import numpy as np

from eunoe.core.rng import generator
from eunoe.data.federation import Federation
from eunoe.metrics.base import Rows


def balanced_part(federation: Federation, samples: int, seed: int) -> Rows:
    """A fixed part of the test set with as many samples of one class as of another; of labels as it comes."""
    labels = federation.data.test.y.numpy()
    order = generator(seed, "probe part").permutation(len(labels))
    if federation.task.name != "classification":
        return Rows("test", np.sort(order[:samples]))
    share = max(1, samples // federation.classes)
    rows = [order[labels[order] == label][:share] for label in range(federation.classes)]
    return Rows("test", np.sort(np.concatenate(rows)))
