"""Do stale updates forget, and whose knowledge? The tables of docs/staleness.md.

Usage: python -m benchmarks.staleness [SEEDS]
"""

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

import eunoe

SETTING: dict[str, Any] = {
    "data": "mnist",
    "partition": {"name": "dirichlet", "clients": 50, "alpha": 0.1},
    "participation": 10,
    "rounds": 60,
    "model": {"name": "mlp", "hidden": [64]},
    "training": {"epochs": 1, "batch_size": 32, "lr": 0.1},
    "probes": [],
}
DELAYS: dict[str, dict[str, Any]] = {
    "none": {},
    "up to 4, uniform": {"staleness": {"max": 4}},
    "up to 16, uniform": {"staleness": {"max": 16}},
    "up to 16, geometric": {"staleness": {"max": 16, "distribution": "geometric"}},
}
REMEDIES: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedavg, wsm": {"loss": "wsm"},
    "fedavg, averaging": {"averaging": {"last": 10}},
    "fedavg, polynomial weights": {"staleness": {"weighting": "polynomial"}},
    "scaffold": {"method": "scaffold"},
    "scaffold, wsm": {"method": "scaffold", "loss": "wsm"},
}


def changes(runs: Iterable[Any]) -> dict[str, float]:
    """Return the mean change of accuracy on clients' data in a round, by how they take part, in points."""
    found: dict[str, list[float]] = {}
    for run in runs:
        before: dict[int, float] = {}
        for record in run.records:
            by_client = record["validation"]["by_client"]
            now = dict(zip(by_client["clients"], by_client["accuracy"], strict=True))
            clients = record["clients"]
            delays = dict(zip(clients, record.get("delays") or [0] * len(clients), strict=True))
            for client, accuracy in now.items():
                part = "absent" if client not in delays else "stale" if delays[client] else "fresh"
                if client in before:
                    found.setdefault(part, []).append(100 * (accuracy - before[client]))
            before = now
    return {part: float(np.mean(values)) for part, values in found.items()}


def spread(values: Iterable[float]) -> str:
    numbers = 100 * np.array(list(values))
    return f"{numbers.mean():.1f} ± {numbers.std(ddof=1):.1f}"


def main(seeds: int = 3) -> None:
    print("| method | delays | accuracy | round forgetting | fresh | stale | absent |")
    print("|---|---|---|---|---|---|---|")
    for method, remedy in REMEDIES.items():
        for name, delay in DELAYS.items():
            values = {**remedy, **delay}
            if "staleness" in remedy:
                if not delay:
                    continue
                values["staleness"] = {**delay["staleness"], **remedy["staleness"]}
            runs = eunoe.run(SETTING, seeds=range(seeds), **values)
            moved = changes(runs)
            parts = [f"{moved[part]:+.2f}" if part in moved else "" for part in ("fresh", "stale", "absent")]
            row = [method, name, spread(r.accuracy for r in runs), spread(r.forgetting for r in runs), *parts]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
