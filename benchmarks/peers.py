"""Seconds of a round on Eunoe, on pfl-research, on Flower's simulation and in a bare loop.

    python -m benchmarks.peers [mlp] [logistic] [lenet] [--turns 12]

Each peer gets its own environment under .peers/, made at the first run, which takes some minutes. All
programs (in the folder peers) are started at once and then measured in turn, with evaluation off.
"""

import argparse
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import low

from eunoe.system.machine import cores, processor

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".peers"
TORCH = "torch==2.13.0"
PACKAGES = {"pfl": "pfl[pytorch]==0.6.0", "flower": "flwr[simulation]==1.41.0"}
PATIENCE = 600.0
WHAT = {
    "mlp": "10 clients of 16 samples, 64-128-10 MLP, batch 8, 5 epochs",
    "logistic": "50 clients of 16 samples, logistic regression on 64 inputs, batch 8, 5 epochs",
    "lenet": "10 of 100 clients of 448 images, LeNet on CIFAR shapes, batch 64, 3 epochs",
}
# The others are compared with the first of each. Small models train fastest on one core.
SMALL = {
    "Eunoe, vectorized": "eunoe vectorized",
    "Eunoe, serial": "eunoe serial",
    "bare loop": "bare one",
    "pfl-research": "pfl one",
    "Flower simulation": "flower usual",
    "Flower simulation, asking every 2 ms": "flower eager",
}
PROGRAMS = {
    "mlp": SMALL,
    "logistic": SMALL,
    "lenet": {
        "Eunoe, process": "eunoe process",
        "bare loop, a process per core": "bare processes",
        "pfl-research, a process per core": "pfl processes",
        "pfl-research, a thread per core": "pfl threads",
        "Flower simulation": "flower usual",
    },
}
# Rounds before the first measurement, and in each.
ROUNDS = {"mlp": (4, 4), "logistic": (2, 2), "lenet": (1, 1)}


class CannotRun(Exception):
    """A program could not be installed or did not answer."""


def environment(program: str) -> Path:
    """Return the Python with the program's packages, which are installed if necessary."""
    if program not in PACKAGES:
        return Path(sys.executable)
    folder = CACHE / program
    done = folder / "installed"
    wanted = f"{TORCH} {PACKAGES[program]}"
    if not done.exists() or done.read_text() != wanted:
        print(f"installing {wanted} under {folder}", file=sys.stderr)
        for command in (
            [sys.executable, "-m", "venv", folder],
            [folder / "bin" / "python", "-m", "pip", "install", "--quiet", *wanted.split()],
        ):
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode:
                raise CannotRun(f"not installed: {last_line(result.stderr)}")
        done.write_text(wanted)
    return folder / "bin" / "python"


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")


@dataclass
class Worker:
    """A program that is started and runs rounds on request."""

    process: subprocess.Popen
    log: Path

    @classmethod
    def start(cls, command: str, workload: str) -> "Worker":
        program, variant = command.split()
        python = environment(program)
        CACHE.mkdir(exist_ok=True)
        log = CACHE / f"{program}-{variant}-{workload}.log"
        paths = [str(HERE / "peers"), str(HERE.parent / "src")]
        quiet = {
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_HOME": str(CACHE / "flower-home"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": tempfile.gettempdir(),
        }
        with log.open("w") as errors:
            process = subprocess.Popen(
                [python, HERE / "peers" / f"{program}_workload.py", workload, variant],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
                env={**os.environ, **quiet, "PYTHONPATH": os.pathsep.join(paths)},
                start_new_session=True,
            )
        return cls(process, log)

    def answer(self) -> str:
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.stop()
            why = last_line(self.log.read_text()) if ready else f"no answer within {PATIENCE:.0f} s"
            raise CannotRun(f"did not run: {why}")
        return line

    def seconds_per_round(self, rounds: int) -> float:
        try:
            print(rounds, file=self.process.stdin)
        except BrokenPipeError:
            raise CannotRun(f"did not run: {last_line(self.log.read_text())}") from None
        return float(self.answer()) / rounds

    def stop(self) -> None:
        try:
            self.process.stdin.close()
            self.process.wait(timeout=60)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def measure(workload: str, turns: int) -> dict[str, list[float] | str]:
    """Return each program's seconds per round, or the reason why it could not run."""
    results: dict[str, list[float] | str] = {}
    workers: dict[str, Worker] = {}
    warm_up, rounds = ROUNDS[workload]

    def attempt(name: str, count: int) -> float | None:
        try:
            if name not in workers:
                workers[name] = Worker.start(PROGRAMS[workload][name], workload)
                workers[name].answer()
            return workers[name].seconds_per_round(count)
        except CannotRun as error:
            results[name] = str(error)
            workers.pop(name, None)
            return None

    try:
        for name in PROGRAMS[workload]:
            if attempt(name, warm_up) is not None:
                results[name] = []
        for _ in range(turns):
            for name in list(workers):
                seconds = attempt(name, rounds)
                if seconds is not None:
                    results[name].append(seconds)
    finally:
        for worker in workers.values():
            worker.stop()
    return results


def table(results: dict[str, list[float] | str]) -> str:
    lows = {name: low(times) for name, times in results.items() if isinstance(times, list)}
    first = lows.get(next(iter(results)))
    rows = ["| program | seconds a round | against Eunoe |", "|---|---|---|"]
    for name, times in results.items():
        if name not in lows:
            rows.append(f"| {name} | {times} | |")
        else:
            ratio = f"{lows[name] / first:.1f}" if first else ""
            rows.append(f"| {name} | {lows[name]:.3f} | {ratio} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "workloads", nargs="*", metavar="workload", help="mlp, logistic, lenet; all without a name"
    )
    parser.add_argument("--turns", type=int, default=12, help="measurements of each program")
    options = parser.parse_args()
    for workload in options.workloads or WHAT:
        if workload not in WHAT:
            parser.error(f"no workload {workload!r}: use {', '.join(WHAT)}")
    print(f"{time.strftime('%d %B %Y')}, {processor()}, {cores()} cores, {TORCH}")
    for workload in options.workloads or WHAT:
        before = os.getloadavg()[0]
        results = measure(workload, options.turns)
        print(f"\n{WHAT[workload]} (load {before:.1f} before, {os.getloadavg()[0]:.1f} after)\n")
        print(table(results), flush=True)


if __name__ == "__main__":
    main()
