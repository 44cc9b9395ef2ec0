"""Methods with state at the server or at clients, killed for real in the midst of a run and resumed."""

from pathlib import Path

import pytest
import torch

from eunoe.simulation.running import resume, run
from tests.waiting import run_until_killed

SETTING = {
    "rounds": 8,
    "participation": 4,
    "public": {"share": 0.1},
    "loss": "wsm",
    "training": {"lr": 0.1, "batch_size": 16},
    "engine": {"name": "serial"},
    "checkpoint_seconds": 0,
    "probes": [],
}
METHODS = {
    "fedavg": {"name": "fedavg"},
    "scaffold": {"name": "scaffold"},
    "fedcurv": {"name": "fedcurv"},
    "local": {"name": "local"},
    "flashback": {"name": "flashback", "server_epochs": 2},
}


@pytest.mark.parametrize("method", METHODS)
def test_killed_and_resumed_is_undisturbed(tmp_path: Path, method: str) -> None:
    setting = {**SETTING, "method": METHODS[method]}
    calm = run(setting, out=tmp_path / "calm")
    run_until_killed(setting, tmp_path / "killed", 3)
    resumed = resume(tmp_path / "killed")
    assert (resumed.folder / "metrics.jsonl").read_text() == (calm.folder / "metrics.jsonl").read_text()
    # Without a global model, that of the first client that trained.
    client = calm.records[0]["clients"][0] if method == "local" else None
    assert torch.equal(resumed.weights(client=client).parameters, calm.weights(client=client).parameters)
