"""Steps of a check: commands run away from the checkout, and a table line for how each step went."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# Long for a busy machine, short for one that hangs.
PATIENCE = 1800
LINES = 40


class CheckFailed(Exception):
    """A step that did not go as it should; the message says why."""


class Checks:
    """Runs steps one after the other and prints a line for each; one that fails does not end the rest."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        print(f"{'where':8}{'what':62}{'outcome':9}{'seconds':>7}", flush=True)

    def step(self, where: str, what: str, action: Callable[[], str | None]) -> bool:
        """Do one thing; it raises CheckFailed, or gives what else there is to say."""
        begun, why, note = time.monotonic(), "", None
        try:
            note = action()
        except CheckFailed as error:
            why = str(error)
            self.failed.append(f"{where}: {what}")
        what = f"{what}: {note}" if note else what
        seconds = time.monotonic() - begun
        print(f"{where:8}{what:62}{'FAILED' if why else 'ok':9}{seconds:7.1f}", flush=True)
        if why:
            first, *rest = why.splitlines()
            print(*(f"        {line}" for line in [first, *rest[-LINES:]]), sep="\n", flush=True)
        return not why


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]) -> str:
    """What a command prints; its process group ends with it, also when this check is interrupted."""
    words = [str(word) for word in command]
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"{' '.join(words)}: not done after {PATIENCE} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise CheckFailed(f"{' '.join(words)}: exit code {process.returncode}\n{printed}")
    return printed


def require(holds: bool, otherwise: str) -> None:
    """Fail the step unless something holds; `assert` would be gone under `python -O`."""
    if not holds:
        raise CheckFailed(otherwise)
