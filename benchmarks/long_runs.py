"""What long runs and many runs take: to report, to compare, to save and to resume.

    python benchmarks/long_runs.py [training] [report] [compare] [--rounds 100000] [--runs 500]

Without a name, all of them run. `training` trains a tiny model for as many seconds as --seconds says. The
others read made-up folders: the records of a short run over and over, with other numbers of rounds or seeds.
Seconds are of the processor, with the start of Python. Tables go to docs/scale.md too.
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

from scale_page import put

from eunoe.analysis.tables import Table
from eunoe.config.toml import to_toml
from eunoe.simulation.running import resume, run
from eunoe.store.reader import read_run_config

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
    run({**TINY, "rounds": rounds, "evaluation": {"every": 1}}, out=home / "short")
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
    what = f"of {options.rounds:,} rounds ({size(folder):.0f} MB)"
    rows = [[f"`eunoe report` {what}: {written:.2f} MB", f"{seconds:.1f}", f"{memory:.0f}"]]
    seconds, memory = command("compare", folder)
    rows.append([f"`eunoe compare` {what}", f"{seconds:.1f}", f"{memory:.0f}"])
    put("report", Table(["what", "seconds", "MB of memory"], rows).markdown())


def compare(home: Path, options: argparse.Namespace) -> None:
    """The comparison of many short runs, and of one."""
    source, rows = short_run(home, 100), []
    folders = [copied(source, home / f"run{number}", 100, number) for number in range(options.runs)]
    for some in (folders, folders[:1]):
        seconds, memory = command("compare", *some)
        many = f"{len(some)} run{'s' * (len(some) > 1)} of 100 rounds"
        rows.append([f"`eunoe compare` of {many}", f"{seconds:.1f}", f"{memory:.0f}"])
    put("compare", Table(["what", "seconds", "MB of memory"], rows).markdown())


def training(home: Path, options: argparse.Namespace) -> None:
    """A run of a tiny model that is ended and resumed: what it takes early and late."""
    folder, rows, config = home / "run", [], {**TINY, "rounds": 10**6}
    for share in (0.1, 0.2, 0.7):
        # The time limit ends the run; resuming goes on from its checkpoint.
        stop, clock = {"hours": share * options.seconds / 3600}, time.process_time()
        found = resume(folder, stop=stop) if rows else run({**config, "stop": stop}, out=folder)
        done, spent = len(found.records), time.process_time() - clock
        saved = max((folder / "checkpoints").glob("*.safetensors")).stat().st_size
        clock = time.process_time()
        resume(folder, stop={"hours": 1e-9})
        again, new = time.process_time() - clock, done - (rows[-1][0] if rows else 0)
        rows.append([done, 1e3 * spent / new, size(folder) * 1e6 / done, saved / 1e3, again])
    heads = ["rounds", "ms a round", "bytes a round on disk", "kB of a checkpoint", "seconds to resume"]
    formats = ("{:,}", "{:.1f}", "{:.0f}", "{:.0f}", "{:.2f}")
    shown = [[form.format(value) for form, value in zip(formats, row, strict=True)] for row in rows]
    put("training", Table(heads, shown).markdown())


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
