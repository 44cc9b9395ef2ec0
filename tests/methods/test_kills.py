"""Methods with state at the server or at clients, killed for real in the midst of a run and resumed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from eunoe.runs.running import resume, run

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
    code = f"from eunoe.runs.running import run; run({setting!r}, out={str(tmp_path / 'killed')!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    metrics, limit = tmp_path / "killed/metrics.jsonl", time.monotonic() + 120
    while process.poll() is None and (not metrics.exists() or metrics.read_text().count("\n") < 3):
        assert time.monotonic() < limit
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    resumed = resume(tmp_path / "killed")
    assert metrics.read_text() == (calm.folder / "metrics.jsonl").read_text()
    # Without a global model, that of the first client that trained.
    client = calm.records[0]["clients"][0] if method == "local" else None
    assert torch.equal(resumed.weights(client=client).parameters, calm.weights(client=client).parameters)
