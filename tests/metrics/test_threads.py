"""Probes have the same bits whatever the number of threads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

SETTINGS = (
    "rounds=1",
    "participation=3",
    # Long enough vectors for BLAS to use its threads.
    "model.hidden=[3000]",
    "training.steps=1",
    'probes=[{metric = "drift", every = 1}, {metric = "client_matrix", every = 1, data = "test"}]',
)


@pytest.mark.slow
def test_probes_have_the_same_bits_with_one_thread_and_with_four(tmp_path: Path) -> None:
    found = []
    for threads in ("1", "4"):
        out = tmp_path / threads
        settings = [part for setting in SETTINGS for part in ("--set", setting)]
        command = ["run", "--engine", "serial", "--no-report", "--out", str(out), *settings]
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        subprocess.run(
            [sys.executable, "-m", "eunoe", *command], env=environment, check=True, timeout=PATIENCE
        )
        found.append((out / "probes.jsonl").read_bytes())
    assert found[0] == found[1]
    assert found[0].count(b"\n") == 2
