"""Judge `eunoe cure` on settings that had no part in making it: sixteen that forget, and four controls.

    python -m benchmarks.cure [judge] [show] [--table FILE] [--minutes 90] [--jobs 2] [--only digits]

judge: run each setting once with plain FedAvg and cure it once with a budget of 15 minutes; the outcome is a
line of the table, whatever it is, and a setting in the table is not judged again. A machine that is too slow
for the budget judges nothing. show: print the table of docs/cure.md. No setting is in benchmarks/remedies.py.
"""

import json
import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, run_sections

from eunoe.analysis.tables import Table
from eunoe.config.settings import merge
from eunoe.errors import InputError
from eunoe.search.cure import cure
from eunoe.simulation.running import run
from eunoe.system.files import read_lines

BUDGET = "15m"


def _dirichlet(clients: int, alpha: float) -> dict[str, Any]:
    return {"name": "dirichlet", "clients": clients, "alpha": alpha}


def _setting(data: str, model: str, partition: Mapping[str, Any], taking: int, **more: Any) -> dict[str, Any]:
    own = {"name": "mlp", "hidden": [64]} if model == "mlp" else {"name": model}
    small = data == "digits"
    base = {
        "data": data,
        "model": own,
        "partition": dict(partition),
        "participation": taking,
        "split": {"validation": 0.2 if small else 0.1},
        "training": {"epochs": 1, "batch_size": 16 if small else 32, "lr": 0.1 if small else 0.05},
        "engine": {"name": "serial"},
    }
    return merge(base, more)


FORGETTING: dict[str, dict[str, Any]] = {
    "digits, alpha 0.2, 2 of 30, 3 epochs": _setting(
        "digits", "mlp", _dirichlet(30, 0.2), 2, rounds=50, training={"epochs": 3}
    ),
    "MNIST, alpha 0.1, 2 of 50": _setting("mnist", "mlp", _dirichlet(50, 0.1), 2, rounds=50),
    "Fashion-MNIST, alpha 0.2, 4 of 80": _setting("fashion_mnist", "mlp", _dirichlet(80, 0.2), 4, rounds=50),
    "digits, alpha 0.3, 1 of 25, 10 epochs": _setting(
        "digits", "mlp", _dirichlet(25, 0.3), 1, rounds=40, training={"epochs": 10}
    ),
    "Fashion-MNIST, two shards, 3 of 60": _setting(
        "fashion_mnist", "mlp", {"name": "shards", "clients": 60, "shards": 2}, 3, rounds=60
    ),
    "MNIST, alpha 0.3, 1 of 40, 2 epochs": _setting(
        "mnist", "mlp", _dirichlet(40, 0.3), 1, rounds=40, training={"epochs": 2}
    ),
    "digits, logistic, two classes each, 3 of 20, 5 epochs": _setting(
        "digits",
        "logistic",
        {"name": "classes", "clients": 20, "classes": 2},
        3,
        rounds=40,
        training={"epochs": 5},
    ),
    "CIFAR-10, alpha 0.1, 4 of 100": _setting("cifar10", "mlp", _dirichlet(100, 0.1), 4, rounds=40),
    "Fashion-MNIST, alpha 0.05, 10 of 100": _setting(
        "fashion_mnist", "mlp", _dirichlet(100, 0.05), 10, rounds=40
    ),
    "LeNet, Fashion-MNIST, alpha 0.2, 3 of 60": _setting(
        "fashion_mnist", "lenet", _dirichlet(60, 0.2), 3, rounds=30
    ),
    "LeNet, MNIST, alpha 0.1, 2 of 50": _setting("mnist", "lenet", _dirichlet(50, 0.1), 2, rounds=30),
    "LeNet, CIFAR-10, alpha 0.3, 3 of 50": _setting("cifar10", "lenet", _dirichlet(50, 0.3), 3, rounds=40),
}
# Added when more seeds of benchmarks/remedies.py changed the order of remedies.
REORDERED: dict[str, dict[str, Any]] = {
    "digits, alpha 0.15, 2 of 25, 5 epochs": _setting(
        "digits", "mlp", _dirichlet(25, 0.15), 2, rounds=50, training={"epochs": 5}
    ),
    "MNIST, alpha 0.15, 3 of 80, 2 epochs": _setting(
        "mnist", "mlp", _dirichlet(80, 0.15), 3, rounds=50, training={"epochs": 2}
    ),
    "LeNet, Fashion-MNIST, alpha 0.15, 2 of 50": _setting(
        "fashion_mnist", "lenet", _dirichlet(50, 0.15), 2, rounds=40
    ),
    "LeNet, CIFAR-10, alpha 0.2, 3 of 60": _setting("cifar10", "lenet", _dirichlet(60, 0.2), 3, rounds=40),
}
CONTROLS: dict[str, dict[str, Any]] = {
    "control: digits, iid, 4 of 20": _setting(
        "digits", "mlp", {"name": "iid", "clients": 20}, 4, rounds=40, training={"epochs": 3}
    ),
    "control: MNIST, iid, 5 of 50": _setting("mnist", "mlp", {"name": "iid", "clients": 50}, 5, rounds=30),
    "control: Fashion-MNIST, iid and rotated, 3 of 30": _setting(
        "fashion_mnist",
        "mlp",
        {"name": "iid", "clients": 30},
        3,
        rounds=30,
        shift={"kind": "rotation", "strength": 30.0},
    ),
    "control: digits, iid and of other contrast, 4 of 20": _setting(
        "digits",
        "mlp",
        {"name": "iid", "clients": 20},
        4,
        rounds=40,
        shift={"kind": "contrast", "strength": 1.0},
        training={"epochs": 3},
    ),
}


def judge(table: Path, minutes: float, jobs: int, only: str) -> None:
    """Judge the settings that are not in the table yet."""
    start = time.monotonic()
    for setting, values in {**FORGETTING, **REORDERED, **CONTROLS}.items():
        known = {row["setting"] for row in read_lines(table)}
        if setting in known or only not in setting:
            continue
        if time.monotonic() - start >= 60 * minutes:
            break
        try:
            row = {"setting": setting, **measure(values, jobs)}
        except InputError as error:
            print(f"{setting}: not judged: {error}", flush=True)
            continue
        with open(table, "a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")
        print(setting, row["sentences"], flush=True)


def measure(values: Mapping[str, Any], jobs: int) -> dict[str, Any]:
    """Run FedAvg and cure it."""
    with tempfile.TemporaryDirectory(prefix="judge-") as folder:
        before = run(values, out=Path(folder) / "base", progress=False)
        start = time.monotonic()
        result = cure(before, budget=BUDGET, jobs=jobs, progress=False)
        seconds = time.monotonic() - start
    gains = {"validation": result.validation, "test": result.test}
    return {
        "forgetting": round(before.forgetting, 4),
        "cure": result.label,
        "tried": len(result.search),
        **{
            name: gain and [round(number, 4) for number in (gain.mean, gain.low, gain.high)]
            for name, gain in gains.items()
        },
        "rows": [list(row) for row in result.table.rows] if result.table else [],
        "sentences": list(result.sentences),
        "seconds": round(seconds),
        "jobs": jobs,
        "load": round(os.getloadavg()[0], 1),
    }


def show(table: Path) -> None:
    """Print the judged settings."""
    rows = [
        [
            row["setting"],
            f"{100 * row['forgetting']:.1f}",
            row["cure"] or "none",
            points(row["validation"]),
            points(row["test"]),
            f"{row['seconds'] / 60:.1f}",
        ]
        for row in read_lines(table)
    ]
    print(Table(["setting", "FedAvg forgets", "remedy", "validation", "test", "minutes"], rows).markdown())


def points(gain: Sequence[float] | None) -> str:
    return "–" if gain is None else "{:+.1f} [{:.1f}, {:.1f}]".format(*(100 * number for number in gain))


if __name__ == "__main__":
    run_sections(
        __doc__, [judge, show], table=ROOT / "results" / "judging.jsonl", minutes=math.inf, jobs=2, only=""
    )
