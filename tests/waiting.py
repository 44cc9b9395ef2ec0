"""Waiting for real processes, and ending them at a given moment."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Seconds after which something that must happen counts as missing, even if the machine is busy.
PATIENCE = 900.0


def until(condition: Callable[[], Any], otherwise: Callable[[], Any] = lambda: "it takes too long") -> None:
    """Wait until a condition holds; `otherwise` gives the text of the failure."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, otherwise()
        time.sleep(0.01)


def run_until_killed(values: dict[str, Any], out: Path, rounds: int) -> None:
    """Start a run in a process of its own that is killed with SIGKILL after a number of rounds."""
    code = (
        "import os, signal\n"
        "from eunoe.simulation.running import run\n"
        "def kill(record):\n"
        f"    if record['round'] == {rounds}:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        f"run({values!r}, out={str(out)!r}, on_round=kill)\n"
    )
    path = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1])]
    setup = f"import sys; sys.path[:0] = {path!r}\n"
    killed = subprocess.run([sys.executable, "-c", setup + code], stdout=subprocess.DEVNULL, check=False)
    assert killed.returncode == -signal.SIGKILL
