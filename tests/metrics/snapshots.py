"""Snapshots of the models of a round, whose answers are set by hand."""

from typing import Any

import numpy as np
import torch

from eunoe.metrics import Evaluation, Metric, Predictions, Snapshot

LABELS = np.array([0, 0, 1, 1])


def evaluation(said: list[int], owners: list[int] | None = None, loss: float = 0.0) -> Evaluation:
    predictions = Predictions(np.array(said), np.full(4, loss), np.array([3.0, 1.0]))
    return Evaluation(predictions, LABELS, 2, None if owners is None else np.array(owners))


def snapshot(
    role: Any, evaluations: dict[str, Evaluation], client: int | None = None, counts: Any = None
) -> Snapshot:
    counts = None if counts is None else np.array(counts)
    return Snapshot(1, role, evaluations, torch.zeros(1), client, counts)


def compute(metric: Metric, *models: Snapshot) -> dict[str, Any]:
    metric.reset()
    for model in models:
        if model.role in metric.sees:
            metric.update(model)
    return dict(metric.compute())


ON_TEST = [
    snapshot("start", {"test": evaluation([0, 0, 1, 0], loss=1.0)}),
    snapshot("local", {"test": evaluation([0, 0, 0, 0], loss=2.0)}, 3, [4, 0]),
    snapshot("local", {"test": evaluation([1, 0, 1, 1], loss=3.0)}, 5, [1, 3]),
    snapshot("global", {"test": evaluation([0, 0, 1, 1], loss=0.5)}),
]
