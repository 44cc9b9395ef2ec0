"""Time to read and divide data, and what 20 rounds reach on each data set.

    python -m benchmarks.data [section ...] [--names mnist cifar10]

reading: with the settings of docs/data.md, seconds to the end of the first round and the accuracy after 20
rounds; partitions: seconds of every partition.
"""

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.harness import run_sections

from eunoe.config import registry
from eunoe.config.schema import Named
from eunoe.core.rng import generator
from eunoe.data.builtin import path_of
from eunoe.simulation.build import load_data
from eunoe.simulation.running import run

_DIGITS = {"model": "mnist_cnn", "training": {"epochs": 1, "batch_size": 32, "lr": 0.05}}
_CIFAR = {"model": "lenet", "training": {"epochs": 3, "batch_size": 32, "lr": 0.05}, "loss": "wsm"}
SETTINGS: dict[str, dict[str, Any]] = {
    "mnist": _DIGITS,
    "fashion_mnist": _DIGITS,
    "cifar10": _CIFAR,
    "cifar100": _CIFAR,
    "omniglot": {
        "partition": {"name": "natural", "min_size": 10},
        "model": "mnist_cnn",
        "training": {"epochs": 5, "batch_size": 16, "lr": 0.05},
        "loss": "wsm",
    },
}
# Samples and clients.
SIZES = ((50_000, 100), (1_000_000, 100_000))


def reading(names: tuple[str, ...]) -> None:
    """Seconds to load a data set and to finish the first round, and the accuracy after 20 rounds."""
    for name in names:
        start = time.perf_counter()
        data = load_data(Named(name=name))
        loaded = time.perf_counter() - start
        start, rounds = time.perf_counter(), list[float]()
        config = {
            "data": name,
            "partition": {"name": "dirichlet", "clients": 100, "alpha": 0.3},
            "participation": 10,
            "rounds": 20,
            "evaluation": {"every": 0, "last": 1, "validation": False},
            "probes": [],
            **SETTINGS[name],
        }
        with tempfile.TemporaryDirectory() as folder:
            accuracy = run(
                config,
                out=Path(folder) / "run",
                on_round=lambda record, rounds=rounds: rounds.append(time.perf_counter()),
            ).accuracy
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(
            f"{name}: loaded in {loaded:.2f} s ({path_of(name).stat().st_size / 1e6:.0f} MB on disk, "
            f"peak {memory:.0f} MB), first round after {rounds[0] - start:.1f} s, "
            f"accuracy {accuracy:.3f} = {accuracy * data.classes:.1f} x chance",
            flush=True,
        )


def partitions() -> None:
    """Seconds to divide samples among clients with each partition."""
    print(f"{'partition':20}" + "".join(f"{n:>12,} / {clients:<8,}" for n, clients in SIZES))
    for name in registry.names("partition"):
        row = f"{name:20}"
        for samples, clients in SIZES:
            rng: np.random.Generator = generator(0, "benchmark")
            labels, groups = rng.integers(0, 10, samples), rng.integers(0, clients, samples)
            options: dict[str, Any] = {} if name == "natural" else {"clients": clients}
            if name == "dirichlet_by_class":
                # Clients with ten samples on average cannot all have the default minimum of ten.
                options |= {"alpha": 1.0, "min_size": 1}
            partition = registry.build("partition", name, options)
            start = time.perf_counter()
            partition(labels, rng, groups)
            row += f"{time.perf_counter() - start:>19.3f} s  "
        print(row, flush=True)


if __name__ == "__main__":
    run_sections(__doc__, [reading, partitions], names=tuple(SETTINGS))
