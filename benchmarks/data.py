"""Every data set that is here: how soon training starts, and how far 20 rounds go above chance.

    python benchmarks/data.py [NAME ...]

The settings are those of docs/data.md. Start is the time from the command to the end of the first round;
chance is one over the number of classes.
"""

import resource
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from eunoe.config.schema import Named
from eunoe.data.builtin import path_of
from eunoe.simulation.build import load_data
from eunoe.simulation.running import run

SETTINGS: dict[str, dict[str, Any]] = {
    "mnist": {"model": "mnist_cnn", "training": {"epochs": 1, "batch_size": 32, "lr": 0.05}},
    "fashion_mnist": {"model": "mnist_cnn", "training": {"epochs": 1, "batch_size": 32, "lr": 0.05}},
    "cifar10": {"model": "lenet", "training": {"epochs": 3, "batch_size": 32, "lr": 0.05}, "loss": "wsm"},
    "cifar100": {"model": "lenet", "training": {"epochs": 3, "batch_size": 32, "lr": 0.05}, "loss": "wsm"},
    "omniglot": {
        "partition": {"name": "natural", "min_size": 10},
        "model": "mnist_cnn",
        "training": {"epochs": 5, "batch_size": 16, "lr": 0.05},
        "loss": "wsm",
    },
}


def main() -> None:
    for name in sys.argv[1:] or SETTINGS:
        began = time.perf_counter()
        data = load_data(Named(name=name))
        loaded = time.perf_counter() - began
        size = path_of(name).stat().st_size / 1e6
        began, first = time.perf_counter(), []
        with TemporaryDirectory() as folder:
            done = run(
                {
                    "data": name,
                    "partition": {"name": "dirichlet", "clients": 100, "alpha": 0.3},
                    "participation": 10,
                    "rounds": 20,
                    "evaluation": {"every": 0, "last": 1, "validation": False},
                    "probes": [],
                    **SETTINGS[name],
                },
                out=Path(folder) / "run",
                on_round=lambda record, first=first: first.append(time.perf_counter()),  # type: ignore[misc]
            )
            accuracy = done.accuracy
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(
            f"{name}: loaded in {loaded:.2f} s ({size:.0f} MB on disk, "
            f"peak {memory:.0f} MB), "
            f"first round after {first[0] - began:.1f} s, "
            f"accuracy {accuracy:.3f} = {accuracy * data.classes:.1f} x chance",
            flush=True,
        )


if __name__ == "__main__":
    main()
