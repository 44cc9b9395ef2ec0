"""What `eunoe cure` does on settings that had no part in making it: sixteen that forget, and four controls.

    python benchmarks/judge_cure.py [--minutes 90] [--jobs 2] [--only digits] [--table results/judging.jsonl]

Each setting is run once with plain FedAvg and cured once with the command's own budget of 15 minutes; what
came out is a line of the table, whatever it is, and a setting in the table is not judged again. A machine
that is too slow for the budget judges nothing. None of the settings is in benchmarks/remedies.py. At the end,
and with --minutes 0, the table is printed as in docs/cure.md.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eunoe.config.settings import merge
from eunoe.errors import InputError
from eunoe.search.cure import cure
from eunoe.simulation.running import run
from eunoe.system.files import read_lines

TABLE = Path(__file__).parents[1] / "results" / "judging.jsonl"
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
# Listed when the order of remedies was changed by what more seeds of benchmarks/remedies.py say.
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


def judge(values: Mapping[str, Any], jobs: int) -> dict[str, Any]:
    """Run FedAvg, cure it, and keep what came out."""
    place = Path(tempfile.mkdtemp(prefix="judge-"))
    try:
        before = run(values, out=place / "base", progress=False)
        began = time.monotonic()
        found = cure(before, budget=BUDGET, jobs=jobs, progress=False)
        seconds = time.monotonic() - began
        gains = {"validation": found.validation, "test": found.test}
        return {
            "forgetting": round(before.forgetting, 4),
            "cure": found.label,
            "tried": len(found.search),
            **{
                name: it and [round(number, 4) for number in (it.mean, it.low, it.high)]
                for name, it in gains.items()
            },
            "rows": [list(row) for row in found.table.rows] if found.table else [],
            "sentences": list(found.sentences),
            "seconds": round(seconds),
            "jobs": jobs,
            "load": round(os.getloadavg()[0], 1),
        }
    finally:
        shutil.rmtree(place)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The judged settings as a table in Markdown."""
    lines = [
        "| setting | FedAvg forgets | remedy | validation | test | minutes |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        gains = [points(row[name]) for name in ("validation", "test")]
        remedy = row["cure"] or "none"
        lines.append(
            f"| {row['setting']} | {100 * row['forgetting']:.1f} | {remedy} | {' | '.join(gains)} | "
            f"{row['seconds'] / 60:.1f} |"
        )
    return "\n".join(lines)


def points(gain: Sequence[float] | None) -> str:
    return "–" if gain is None else "{:+.1f} [{:.1f}, {:.1f}]".format(*(100 * number for number in gain))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="Begin nothing after this time.")
    parser.add_argument("--jobs", type=int, default=2, help="Runs at a time.")
    parser.add_argument("--only", default="", help="Only settings with this in their name.")
    options = parser.parse_args()
    began = time.monotonic()
    for setting, values in {**FORGETTING, **REORDERED, **CONTROLS}.items():
        known = {row["setting"] for row in read_lines(options.table)}
        if setting in known or options.only not in setting:
            continue
        if time.monotonic() - began >= 60 * options.minutes:
            break
        try:
            line = {"setting": setting, **judge(values, options.jobs)}
        except InputError as error:
            print(f"{setting}: not judged: {error}", flush=True)
            continue
        with open(options.table, "a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")
        print(setting, line["sentences"], flush=True)
    print(table(read_lines(options.table)))


if __name__ == "__main__":
    main()
