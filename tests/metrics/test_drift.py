"""How far models moved, by hand."""

from typing import Any

import pytest
import torch

from eunoe.metrics import Snapshot
from eunoe.metrics.local_models import Drift
from tests.metrics.snapshots import found


def test_drift_by_hand() -> None:
    def moved(role: Any, values: list[float], client: int | None = None) -> Snapshot:
        return Snapshot(1, role, {}, torch.tensor(values), client)

    models = [moved("start", [1.0, 1.0]), moved("local", [4.0, 1.0], 3), moved("local", [1.0, 5.0], 5)]
    metric = Drift()
    for _ in range(2):
        said = found(metric, *models)
        assert said["clients"] == [3, 5]
        assert said["from_start"] == [3.0, 4.0]
        assert said["apart"] == pytest.approx(5.0)
        assert said["cosine"] == pytest.approx(0.0)
