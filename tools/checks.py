"""Steps of a check: run commands outside the checkout, and print a line for each step."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# Seconds that a command may take, and lines of its output that are shown if it fails.
PATIENCE = 1800
LINES = 40


class CheckFailed(Exception):
    """A step failed, for the reason in the message."""


class Checks:
    """Run steps one after another and print a line for each; a failed step does not stop the others."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        print(f"{'where':8}{'what':62}{'outcome':9}{'seconds':>7}", flush=True)

    def step(self, where: str, what: str, action: Callable[[], str | None]) -> bool:
        """Run an action, which raises CheckFailed or returns a note; return whether it succeeded."""
        start, reason, note = time.monotonic(), "", None
        try:
            note = action()
        except CheckFailed as error:
            reason = str(error)
            self.failed.append(f"{where}: {what}")
        what = f"{what}: {note}" if note else what
        seconds = time.monotonic() - start
        print(f"{where:8}{what:62}{'FAILED' if reason else 'ok':9}{seconds:7.1f}", flush=True)
        if reason:
            first, *rest = reason.splitlines()
            print(*(f"        {line}" for line in [first, *rest[-LINES:]]), sep="\n", flush=True)
        return not reason


def run(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command and return its output; its process group ends with it, also on an interrupt."""
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
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"{' '.join(words)}: not finished after {PATIENCE} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise CheckFailed(f"{' '.join(words)}: exit code {process.returncode}\n{output}")
    return output


def require(condition: bool, message: str) -> None:
    """Raise CheckFailed unless a condition holds; `python -O` would remove an assert."""
    if not condition:
        raise CheckFailed(message)
