"""A small multilabel or regression federation."""

from typing import Any

import numpy as np

from eunoe.data.federation import Federation


def federation(task: str, **options: Any) -> Federation:
    """Clients that differ in their inputs; labels and numbers follow from these."""
    rng = np.random.default_rng(1)
    clients = np.repeat(np.arange(5), 40)
    x = (rng.normal(size=(200, 4)) + rng.normal(size=(5, 4))[clients]).astype(np.float32)
    signs = x @ rng.normal(size=(4, 3))
    y = (signs > 0).astype(np.int64) if task == "multilabel" else 7 + 30 * signs[:, :2]
    return Federation.from_arrays(x, y, client_ids=clients, **{"validation": 0.2, "task": task, **options})
