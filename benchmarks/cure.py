"""Judge `eunoe cure` on ten settings with data that had no part in making it.

    python -m benchmarks.cure [judge] [show] [--minutes 90] [--budget 8m] [--trials 12] [--only wine]

judge: run each setting once with plain FedAvg and cure it once; the outcome is a line of the table, whatever
it is, and a setting in the table is not judged again. With --trials the plan does not depend on the speed of
the machine. show: write the table of docs/cure.md.
"""

import json
import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.harness import ROOT, replace_in_page, run_sections

from eunoe.analysis.tables import Table
from eunoe.config.settings import merge
from eunoe.errors import InputError
from eunoe.search.cure import cure
from eunoe.simulation.running import run
from eunoe.system.files import read_lines


def _setting(
    data: str, model: Mapping[str, Any], partition: Mapping[str, Any], taking: int, **more: Any
) -> dict[str, Any]:
    base = {
        "data": data,
        "model": model,
        "partition": partition,
        "participation": taking,
        "rounds": 80,
        "split": {"validation": 0.15},
        "training": {"epochs": 2, "batch_size": 32, "lr": 0.05},
        "engine": {"name": "serial"},
    }
    return merge(base, more)


def _dirichlet(clients: int, alpha: float) -> dict[str, Any]:
    return {"name": "dirichlet", "clients": clients, "alpha": alpha}


MLP: dict[str, Any] = {"name": "mlp", "hidden": [64]}
NATURAL: dict[str, Any] = {"name": "natural"}
SETTINGS: dict[str, dict[str, Any]] = {
    "FEMNIST by writer, MLP, 5 in a round": _setting("femnist", MLP, {**NATURAL, "min_size": 50}, 5),
    "FEMNIST, alpha 0.1, LeNet, 3 of 60": _setting(
        "femnist", {"name": "lenet"}, _dirichlet(60, 0.1), 3, rounds=50
    ),
    "Shakespeare by speaker, text CNN, 5 in a round": _setting(
        "shakespeare", {"name": "text_cnn"}, {**NATURAL, "min_size": 20}, 5, training={"lr": 0.2}
    ),
    "BANKING77, alpha 0.3, bag of words, 3 of 30": _setting(
        "banking77", {"name": "text_bag"}, _dirichlet(30, 0.3), 3, training={"lr": 0.5, "epochs": 3}
    ),
    "Omniglot by writer, MLP, 2 in a round": _setting("omniglot", MLP, NATURAL, 2, training={"epochs": 5}),
    "CIFAR-100, alpha 0.2, LeNet, 4 of 60": _setting(
        "cifar100", {"name": "lenet"}, _dirichlet(60, 0.2), 4, rounds=60
    ),
    "wine, alpha 0.5, MLP, 2 of 8": _setting("wine", MLP, _dirichlet(8, 0.5), 2, rounds=60),
    "breast cancer, alpha 0.2, logistic, 2 of 12": _setting(
        "breast cancer", {"name": "logistic"}, _dirichlet(12, 0.2), 2, rounds=60
    ),
    "clusters, two classes each, MLP, 2 of 25": _setting(
        "clusters", MLP, {"name": "classes", "clients": 25, "classes": 2}, 2, rounds=60
    ),
    "clusters, iid with other contrast, MLP, 3 of 30": _setting(
        "clusters", MLP, {"name": "iid", "clients": 30}, 3, shift={"kind": "contrast", "strength": 1.0}
    ),
}


def _write_arrays(name: str, folder: Path) -> dict[str, Any]:
    """Write a data set of scikit-learn as .npz; return the section of a config that reads it."""
    from sklearn.datasets import load_breast_cancer, load_wine, make_classification

    if name == "clusters":
        x, y = make_classification(
            6_000, n_features=20, n_informative=12, n_classes=8, n_clusters_per_class=2, random_state=0
        )
    else:
        x, y = (load_wine if name == "wine" else load_breast_cancer)(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order].astype(np.float32), y[order].astype(np.int64)
    x = (x - x.mean(0)) / x.std(0)
    cut = len(y) // 4
    np.savez(folder / "data.npz", x_train=x[cut:], y_train=y[cut:], x_test=x[:cut], y_test=y[:cut])
    return {"name": "npz", "path": str(folder / "data.npz")}


def judge(table: Path, minutes: float, budget: str, trials: int, jobs: int, only: str) -> None:
    """Judge the settings that are not in the table yet."""
    start = time.monotonic()
    for setting, values in SETTINGS.items():
        known = {row["setting"] for row in read_lines(table)}
        if setting in known or only not in setting:
            continue
        if time.monotonic() - start >= 60 * minutes:
            break
        try:
            row = {"setting": setting, **measure(values, budget, trials or None, jobs)}
        except InputError as error:
            print(f"{setting}: not judged: {error}", flush=True)
            continue
        with open(table, "a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")
        print(setting, row["sentences"], flush=True)


def measure(values: Mapping[str, Any], budget: str, trials: int | None, jobs: int) -> dict[str, Any]:
    """Run FedAvg and cure it."""
    with tempfile.TemporaryDirectory(prefix="judge-") as folder:
        data = values["data"]
        if data in ("wine", "breast cancer", "clusters"):
            values = {**values, "data": _write_arrays(data, Path(folder))}
        before = run(values, out=Path(folder) / "base", progress=False)
        start = time.monotonic()
        result = cure(before, budget=budget, trials=trials, jobs=jobs, progress=False)
        seconds = time.monotonic() - start
    gains = {"gain": result.gain, "over_last": result.over_last, "test": result.test}
    return {
        "forgetting": round(before.forgetting, 4),
        "cure": result.label,
        "tried": len(result.search) // 2,
        **{
            name: gain and [round(number, 4) for number in (gain.mean, gain.low, gain.high)]
            for name, gain in gains.items()
        },
        "rows": [list(row) for row in result.table.rows] if result.table else [],
        "sentences": list(result.sentences),
        "seconds": round(seconds),
        "budget": budget,
        "trials": trials,
        "load": round(os.getloadavg()[0], 1),
    }


def show(table: Path) -> None:
    """Write the judged settings to the docs page."""
    rows = [
        [
            row["setting"],
            f"{100 * row['forgetting']:.1f}",
            row["cure"] or "none",
            points(row["gain"]),
            points(row["over_last"]),
            points(row["test"]),
            f"{row['seconds'] / 60:.1f}",
        ]
        for row in read_lines(table)
    ]
    headings = ["setting", "forgets", "remedy", "gain", "over last rounds", "test", "minutes"]
    replace_in_page("cure.md", "measured", Table(headings, rows).markdown())


def points(gain: Sequence[float] | None) -> str:
    return "–" if gain is None else "{:+.1f} [{:.1f}, {:.1f}]".format(*(100 * number for number in gain))


if __name__ == "__main__":
    run_sections(
        __doc__,
        [judge, show],
        table=ROOT / "results" / "judging.jsonl",
        minutes=math.inf,
        budget="8m",
        trials=0,
        jobs=2,
        only="",
    )
