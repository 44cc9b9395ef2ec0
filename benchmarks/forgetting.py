"""What looking costs: a report of 6 runs x 500 rounds; a probe of 10 models x 10 data sets against a round.

PYTHONPATH=. python benchmarks/forgetting.py
"""

import json
import tempfile
import time
from pathlib import Path

import numpy as np
from tests.report.made_up import made_up_run

from eunoe.config.options import Split
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.data.partitions.iid import Iid
from eunoe.report.html import write_report
from eunoe.simulation.running import run


def report() -> None:
    runs = [
        made_up_run(label, seed, rounds=500, classes=10)
        for label in ("FedAvg", "FedAvg + WSM")
        for seed in range(3)
    ]
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        path = write_report(runs, Path(folder) / "report.html")
        seconds, size = time.perf_counter() - began, path.stat().st_size / 1e6
    print(f"report of 6 runs x 500 rounds: {seconds:.1f} s (under 10), {size:.2f} MB (under 5)")


def probe() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (100 * 500, 32, 32, 3), dtype=np.uint8)
    y = np.arange(len(x)) % 10
    data = from_arrays(x, y, x[:1000], y[:1000])
    federation = Federation.build(data, Iid(clients=100), split=Split(validation=0.1))
    with tempfile.TemporaryDirectory() as folder:
        run(
            federation=federation, model={"name": "lenet"}, rounds=6, participation=10,
            training={"epochs": 3, "batch_size": 64, "lr": 0.01}, evaluation={"every": 0, "last": 0},
            probes=[{"metric": "client_matrix", "every": 1, "data": "participants"}],
            out=Path(folder) / "run",
        )  # fmt: skip
        lines = (Path(folder) / "run/timings.jsonl").read_text().splitlines()
    ratios = [line["probe"] / line["train"] for line in map(json.loads, lines)]
    print(f"probe of 10 models x 10 data sets: {np.median(ratios):.3f} of a training round (at most 1)")


if __name__ == "__main__":
    report()
    probe()
