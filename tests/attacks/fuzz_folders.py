"""Run folders with a damaged file: shown, reported and resumed.

Whoever resumes such a folder must get the bits of the whole run, or a refusal. Whoever shows it must get the
same numbers, a warning or a refusal.
"""

import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eunoe.analysis.comparison import Comparison
from eunoe.report.html import write_report
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.store.reader import read_run
from tests.attacks.damage import BINARY, TEXT
from tests.attacks.fuzz_configs import BASE
from tests.small_runs import bits

BEGUN: dict[str, Any] = {
    **BASE,
    "rounds": 3,
    "checkpoint_seconds": 0,
    "probes": [{"metric": "drift", "every": 1}, {"metric": "local_per_class", "every": 2}],
}
KINDS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "scaffold": {"method": "scaffold"},
    "fedadam": {"method": "fedadam", "averaging": {"decay": 0.5}},
}


@cache
def templates() -> dict[str, tuple[Path, dict[str, bytes], list[list[str]], list[int]]]:
    """A run of three rounds of each kind, the bits of its five rounds, its table and its predictions."""
    home = Path(tempfile.mkdtemp(prefix="fuzz-templates-"))
    found = {}
    for kind, values in KINDS.items():
        run({**BEGUN, **values}, out=home / kind, progress=False)
        shutil.copytree(home / kind, home / "whole")
        whole = bits(resume(home / "whole", rounds=5, progress=False).folder)
        shutil.rmtree(home / "whole")
        found[kind] = home / kind, whole, shown(home / kind), predicted(home / kind)
    return found


def shown(folder: Path) -> list[list[str]]:
    """What a table of the run says."""
    return [[str(cell) for cell in row] for row in Comparison([read_run(folder)]).table().rows]


def predicted(folder: Path) -> list[int]:
    """What the run's model says of some images."""
    images = np.random.default_rng(0).integers(0, 256, (200, 8, 8), np.uint8)
    classes: list[int] = Run(folder).predict(images).tolist()
    return classes


def folder_case(rng: np.random.Generator, home: Path) -> tuple[str, Callable[[], str]]:
    """A run with one damaged file, and a command on it."""
    names = list(templates())
    source, whole, table, models = templates()[names[int(rng.integers(len(names)))]]
    folder = home / "run"
    shutil.copytree(source, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    path = files[int(rng.integers(len(files)))]
    # A report takes seconds.
    command = ("resume", "show", "predict", "report")[int(rng.choice(4, p=[0.5, 0.3, 0.15, 0.05]))]
    what = damage(path, rng)
    place = (
        "states" if "states" in path.parts else "checkpoints" if "checkpoints" in path.parts else path.name
    )

    def action() -> str:
        if command == "resume":
            return "ran" if bits(resume(folder, rounds=5, progress=False).folder) == whole else "silent"
        if command == "show":
            return "ran" if shown(folder) == table else "silent"
        if command == "report":
            page = write_report([read_run(folder)], home / "report.html").read_text("utf-8")
            return "silent" if "\x1b" in page or "<script>alert" in page else "ran"
        return "ran" if predicted(folder) == models else "silent"

    return f"{command}, {place}: {what}", action


def damage(path: Path, rng: np.random.Generator) -> str:
    """Damage a file; give the name of what was done."""
    binary = path.suffix == ".safetensors"
    ways = BINARY if binary else TEXT
    at = int(rng.integers(len(ways) + 2))
    content = path.read_bytes()
    if at >= len(ways) or not content:
        path.unlink()
        if at == len(ways):
            path.mkdir()
            return "a folder instead"
        return "removed"
    path.write_bytes(ways[at](content, rng))
    return ways[at].__name__
