"""What long runs and many runs take: to report, to compare, to save and to resume.

    python benchmarks/long_runs.py [training] [report] [compare] [--rounds 100000] [--runs 500]

Without a name, all of them run. `training` trains a tiny model for as many seconds as --seconds says. The
others read made-up folders: the records of a short run over and over, with other numbers of rounds or seeds.
Seconds are of the processor, with the start of Python.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from eunoe.config.toml import to_toml
from eunoe.records.reader import read_run_config
from eunoe.runs.run import run

TINY = {
    "data": "digits",
    "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.3},
    "model": "logistic",
    "participation": 5,
    "training": {"epochs": 1, "lr": 0.1},
    "engine": "serial",
    "evaluation": {"every": 10},
    "checkpoint_seconds": 10,
    "probes": [],
}


def command(*words: object) -> tuple[float, float]:
    """Run `eunoe` with these words: its seconds of the processor and its largest memory in MB."""
    process = subprocess.Popen([sys.executable, "-m", "eunoe", *map(str, words)], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"eunoe {words[0]} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3


def size(folder: Path) -> float:
    """MB of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def short_run(home: Path, rounds: int) -> Path:
    """A run of some rounds, evaluated after each."""
    run({**TINY, "rounds": rounds, "evaluation": {"every": 1}}, out=home / "short", progress=False)
    return home / "short"


def copied(source: Path, folder: Path, rounds: int, seed: int = 0) -> Path:
    """A folder with the records of a run over and over, as if it had as many rounds and this seed."""
    folder.mkdir()
    (folder / "config.toml").write_text(to_toml({**read_run_config(source), "rounds": rounds, "seed": seed}))
    status = {"state": "finished", "round": rounds, "reason": "", "seconds": 1.0}
    (folder / "status.json").write_text(json.dumps(status))
    (folder / "partition.json").write_text((source / "partition.json").read_text())
    for name in ("metrics.jsonl", "timings.jsonl"):
        lines = [json.loads(line) for line in (source / name).read_text().splitlines()]
        with open(folder / name, "w") as file:
            for round in range(1, rounds + 1):
                file.write(json.dumps({**lines[(round - 1) % len(lines)], "round": round}) + "\n")
    return folder


def report(home: Path, options: argparse.Namespace) -> None:
    """The report of one long run."""
    folder = copied(short_run(home, 200), home / "long", options.rounds)
    seconds, memory = command("report", folder, "--out", home / "report.html")
    written = (home / "report.html").stat().st_size / 1e6
    print(
        f"report of {options.rounds:,} rounds ({size(folder):.0f} MB): {seconds:.1f} s, {written:.2f} MB, "
        f"memory {memory:.0f} MB (at most 10 s and 5 MB)"
    )
    seconds, memory = command("compare", folder)
    print(f"compare of that run: {seconds:.1f} s, memory {memory:.0f} MB")


def compare(home: Path, options: argparse.Namespace) -> None:
    """The comparison of many short runs."""
    source = short_run(home, 100)
    for number in range(options.runs):
        copied(source, home / f"run{number}", 100, seed=number)
    seconds, memory = command("compare", *(home / f"run{number}" for number in range(options.runs)))
    print(
        f"compare of {options.runs} runs of 100 rounds: {seconds:.1f} s, memory {memory:.0f} MB "
        "(at most 10 s)"
    )


def training(home: Path, options: argparse.Namespace) -> None:
    """A run of a tiny model: rounds per second, bytes, checkpoint and resume, early and late."""
    folder, rounds = home / "run", 10**6
    began = time.process_time()
    for part in (1, 4):
        # The time limit ends the run; resuming goes on from its checkpoint.
        stop = {"hours": part * options.seconds / 5 / 3600}
        if part == 1:
            found = run({**TINY, "rounds": rounds, "stop": stop}, out=folder, progress=False)
        else:
            from eunoe.runs.run import resume

            found = resume(folder, stop=stop, progress=False)
        done = len(found.records)
        saved = sorted((folder / "checkpoints").glob("*.safetensors"))[-1].stat().st_size
        clock = time.process_time()
        resume_only(folder)
        took = time.process_time() - clock
        print(
            f"after {done:,} rounds: {size(folder) * 1e6 / done:.0f} bytes a round in the folder, a "
            f"checkpoint of {saved / 1e3:.1f} kB, {took:.2f} s to resume"
        )
    print(f"{(time.process_time() - began):.0f} s in all")


def resume_only(folder: Path) -> None:
    """Resume a run that has nothing left to do but one more round."""
    from eunoe.runs.run import resume

    resume(folder, stop={"hours": 1e-9}, progress=False)


SECTIONS: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    f.__name__: f for f in (training, report, compare)
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS])
    parser.add_argument("--rounds", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=120.0)
    chosen = parser.parse_args()
    for name in chosen.sections or SECTIONS:
        with tempfile.TemporaryDirectory() as home:
            SECTIONS[name](Path(home), chosen)
