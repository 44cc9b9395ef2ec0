"""Records of runs that never took place, in a folder and in the table of stored results."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eunoe.config.settings import merge, to_toml
from eunoe_papers.claims import Claim, label
from eunoe_papers.experiment import Arm, Experiment, PlannedRun, Shrunk
from eunoe_papers.loader import find_experiment
from eunoe_papers.measures import Measure
from eunoe_papers.store import load, path_of, read_folder, save

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
FEDAVG, WSM = label(data="cifar10", method="fedavg"), label(data="cifar10", method="fedavg+wsm")
BETTER = {"sentence": "WSM is better", "better": "fedavg+wsm", "than": "fedavg", "rows": "mean"}


def measures(**columns: Any) -> dict[str, Measure]:
    """Measures by column; `main` is the one without a name."""
    return {column.replace("main", ""): Measure(**measure) for column, measure in columns.items()}


def tiny(*claims: dict[str, Any], update: Mapping[str, Any] | None = None, **changes: Any) -> Experiment:
    """FedAvg with and without WSM on digits; `changes` are of the config, `update` of the experiment."""
    experiment = Experiment(
        name="wsm-table3",
        source=find_experiment("wsm-table3").source,
        config=merge(COMMON, changes),
        arms=(Arm(label=FEDAVG, changes={}), Arm(label=WSM, changes={"loss": {"name": "wsm"}})),
        measures=measures(main={"kind": "last_rounds"}),
        claims=tuple(Claim(**claim) for claim in claims or (BETTER,)),
        small=Shrunk(config={"rounds": 2, "data": {"limit": 300}}),
        after="classes_per_client",
    )
    return experiment.model_copy(update=dict(update or {}))


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


def store(experiment: Experiment, runs: Sequence[PlannedRun], results: Path) -> None:
    """Store runs that have folders."""
    path = path_of(results, experiment)
    save(path, [*load(path), *(read_folder(run) for run in runs)])
