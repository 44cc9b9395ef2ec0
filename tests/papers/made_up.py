"""Records of runs that never took place, in a folder and in the table of stored results."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eunoe.config.settings import merge
from eunoe.config.toml import to_toml
from eunoe.papers.claims import Claim
from eunoe.papers.comparisons import mean_gain
from eunoe.papers.exhibit import Exhibit, PlannedRun, Variant
from eunoe.papers.keys import key
from eunoe.papers.measures import last_rounds
from eunoe.papers.store import load, path_of, read_folder, save

COMMON: dict[str, Any] = {
    "rounds": 3,
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "clients": 5, "alpha": 0.5},
    "participation": 2,
    "model": {"name": "logistic"},
    "training": {"epochs": 1, "batch_size": 16, "lr": 0.1},
    "evaluation": {"every": 1, "last": 2},
    "method": {"name": "fedavg"},
    "loss": {"name": "ce"},
    "engine": {"name": "serial"},
}
FEDAVG, WSM = key(data="cifar10", method="fedavg"), key(data="cifar10", method="fedavg+wsm")


def tiny(**changes: Any) -> Exhibit:
    """FedAvg with and without WSM on a few digits."""
    return Exhibit(
        "wsm-table3",
        merge(COMMON, changes),
        (Variant(FEDAVG, {}), Variant(WSM, {"loss": {"name": "wsm"}})),
        {"": last_rounds("accuracy")},
        (Claim("WSM is better", mean_gain("fedavg+wsm", "fedavg")),),
        {"rounds": 2, "data": {"limit": 300}},
        after=lambda run: {"classes": float(run.simulation.federation.classes)},
    )


def write_run(planned: PlannedRun, accuracy: Mapping[int, float]) -> None:
    """Write the folder of a run that had these accuracies, by round, and then stopped."""
    planned.folder.mkdir(parents=True)
    tests = {
        round: {"test": {"accuracy": value, "loss": 1.0, "per_class": [value, value]}}
        for round, value in accuracy.items()
    }
    # A round that is not evaluated has a line too.
    lines = [{"schema": 1, "round": round, **tests.get(round, {})} for round in range(1, max(tests) + 1)]
    (planned.folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (planned.folder / "config.toml").write_text(to_toml(planned.values))
    status = {"state": "finished", "round": max(accuracy), "reason": "1 hours passed", "seconds": 1.0}
    (planned.folder / "status.json").write_text(json.dumps(status))


def store(exhibit: Exhibit, runs: Sequence[PlannedRun], results: Path) -> None:
    """Store runs that have folders."""
    path = path_of(results, exhibit)
    save(path, [*load(path), *(read_folder(run) for run in runs)])
