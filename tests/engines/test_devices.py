"""Engines that train on a device other than the CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eunoe.config import registry
from eunoe.config.builtin import PRESETS

METHODS = [name for name in registry.names("method") if name not in PRESETS]


@pytest.mark.parametrize(
    "methods",
    [["fedavg", "scaffold", "flashback"], pytest.param(METHODS, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_runs_and_resumed_runs_give_the_same_on_another_device(tmp_path: Path, methods: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.elsewhere", tmp_path, *methods],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."])},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the same on both devices") == len(methods)
