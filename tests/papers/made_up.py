"""Records of runs that never took place, as a clone has them: no checkpoint, no data."""

import json
from collections.abc import Mapping

from eunoe.config.toml import to_toml
from eunoe.papers.base import Run
from eunoe.papers.reproduce import Choice


def write_run(choice: Choice, run: Run, accuracy: Mapping[int, float]) -> None:
    """Write the folder of a run that had these accuracies, by round, and then stopped."""
    planned = choice.planned(run)
    planned.folder.mkdir(parents=True)
    lines = [
        {"schema": 1, "round": round, "test": {"accuracy": value, "loss": 1.0, "per_class": [value, value]}}
        for round, value in accuracy.items()
    ]
    (planned.folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (planned.folder / "config.toml").write_text(to_toml(planned.values))
    status = {"state": "finished", "round": max(accuracy), "reason": "1 hours passed", "seconds": 1.0}
    (planned.folder / "status.json").write_text(json.dumps(status))
