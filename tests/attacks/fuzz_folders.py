"""Run folders with a damaged file: shown, reported and resumed.

Whoever resumes such a folder must get the bits of the whole run, or a refusal. Whoever shows it must get the
same numbers, a warning or a refusal.
"""

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eunoe.analysis.comparison import Comparison
from eunoe.analysis.diagnosis import diagnose
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
    "probed": {"probes": [{"metric": "client_matrix", "every": 1, "data": "test"}]},
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


def record_case(rng: np.random.Generator, home: Path) -> tuple[str, Callable[[], str]]:
    """A run with one JSON file of another structure, read by everything that reads records."""
    names = list(templates())
    source = templates()[names[int(rng.integers(len(names)))]][0]
    folder = home / "run"
    shutil.copytree(source, folder)
    files = [*sorted(folder.glob("*.json")), *sorted(folder.glob("*.jsonl"))]
    path = files[int(rng.integers(len(files)))]
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    at = int(rng.integers(len(lines)))
    value = json.loads(lines[at])
    what = restructure(value, rng)
    lines[at] = json.dumps(value)
    path.write_text("\n".join(lines) + "\n")
    commands: dict[str, Callable[[], object]] = {
        "compare": lambda: shown(folder),
        "diagnose": lambda: diagnose(read_run(folder)),
        "report": lambda: write_report([read_run(folder)], home / "report.html"),
        "resume": lambda: resume(folder, rounds=4, progress=False),
    }
    command = list(commands)[int(rng.integers(len(commands)))]

    def action() -> str:
        commands[command]()
        return "other"

    return f"{command}, {path.name}: {what}", action


def restructure(value: Any, rng: np.random.Generator) -> str:
    """Change a JSON object somewhere inside: a key, a type, a length; give the name of what was done."""
    places: list[tuple[Any, Any]] = []

    def visit(inner: Any) -> None:
        for key in inner if isinstance(inner, dict) else range(len(inner)):
            places.append((inner, key))
            if isinstance(inner[key], dict | list):
                visit(inner[key])

    visit(value)
    place, key = places[int(rng.integers(len(places)))]
    way = int(rng.integers(4))
    if way == 0 and isinstance(place, dict):
        place[f"{key}2"] = place.pop(key)
        return "renamed key"
    if way == 1:
        del place[key]
        return "removed"
    if way == 2 and isinstance(place[key], list):
        place[key].append(place[key][0] if place[key] else 0)
        return "longer list"
    odd = [None, -1, 0, 10**30, 1e308, 0.5, True, "", "x" * 34_000, [], [[]], [None], {}, {"a": {"b": []}}]
    place[key] = odd[int(rng.integers(len(odd)))]
    return "other value"


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
