"""Every method while data change: engines agree, a kill changes nothing, old samples and counts are kept."""

from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.config import registry
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.testing import models
from tests.methods.test_every_method import SMALL, trains_clients
from tests.small_runs import REFERENCES, Stopped, bits, stop_after

METHODS = [name for name in registry.names("method") if trains_clients(name)]
DRIFTING: dict[str, Any] = {
    "rounds": 5,
    "partition": {"name": "dirichlet", "clients": 6, "alpha": 0.3},
    "participation": 3,
    "public": {"share": 0.05},
    "stream": {"name": "label_drift", "start": 2, "end": 5},
    "replay": {"memory": 15},
    "stale_counts": 1,
    "model": {"name": "mlp", "hidden": [6]},
    "training": {"steps": 2, "batch_size": 8, "label_counts": "seen"},
    "loss": "wsm",
    "evaluation": {"every": 0, "last": 1},
    "probes": [],
    "engine": "serial",
}


def drifting(method: str, **changes: Any) -> Run:
    needed = REFERENCES.get(method, {})
    return run(DRIFTING, method={"name": method, **SMALL.get(method, {})}, **needed, **changes)


@pytest.mark.parametrize("method", METHODS)
def test_engines_agree_and_a_kill_within_the_drift_changes_nothing(method: str, tmp_path: Path) -> None:
    whole = drifting(method, out=tmp_path / "whole")
    for engine, tolerance in (("process", 0.0), ("vectorized", 1e-4)):
        other = drifting(method, engine=engine)
        assert all(
            torch.allclose(a.parameters, b.parameters, rtol=0, atol=tolerance)
            for a, b in zip(models(whole), models(other), strict=True)
        )
    with pytest.raises(Stopped):
        drifting(method, out=tmp_path / "cut", on_round=stop_after(3))
    assert bits(resume(tmp_path / "cut").folder) == bits(whole.folder)
