"""What the files of a run folder hold, and how they are read.

A run folder has JSON Lines files, one object per line and round or probe. Numbers that do not exist are null
(accuracy of a class without test samples, forgetting in the first round) and become NaN here.

metrics.jsonl, one line per round ("validation" or "test" is null in a round where it was not measured):
    {"schema": 1, "round": 7, "clients": [3, 5], "dropped": [], "bytes_up": 80, "bytes_down": 80,
     "validation": {"accuracy": 0.6, "loss": 1.1, "per_class": [0.5, 0.7]}, "test": {the same},
         (of several labels "f1" in place of accuracy, of numbers "r2" and no per_class: docs/tasks.md)
     "forgetting": {"round": 0.02, "fedntd": 0.05},
     "privacy": {"epsilon": 1.2, "delta": 1e-5, "merges": 7} (with privacy only),
     "personal": {"clients": 20, "without_prior": 0.6, "with_prior": 0.7},
     "sent": {"validation", "test" and "forgetting" of the model that clients receive, with averaging only}}

probes.jsonl, one line per probe:
    {"schema": 1, "round": 7, "probe": "client_matrix", "models": [3, 5], "data": [3, 5],
     "start": [accuracy of the start model per data], "after": [[accuracy per data] per model]}
    {"schema": 1, "round": 7, "probe": "local_per_class", "clients": [3, 5],
     "start": [per class], "local": [[per class] per client], "merged": [per class],
     "counts": [[train labels per class] per client] or null,
     "loss": {"start": 1.2, "local": [per client], "merged": 1.1} or null}
    {"schema": 1, "round": 7, "probe": "drift", "clients": [3, 5],
     "from_start": [per client], "apart": 0.8, "cosine": 0.1}
    {"schema": 1, "round": 7, "probe": "probability", "clients": [3, 5],
     "probability": [[per class] per client], "counts": [[train labels per class] per client]}

timings.jsonl, one line per round, seconds by step:
    {"round": 7, "train": 0.8, "evaluate": 0.2, "probe": 0.1}

partition.json:
    {"schema": 1, "label_counts": [[train labels per class] per client], "class_names": ["cat", ...] or null,
     "client_names": ["cleveland", ...] or null}

A metric of the user's own has a number, or an object of numbers, under its name in metrics.jsonl.
config.toml, environment.json and status.json hold the configuration, the environment and the progress.
All but config.toml may be missing; the report leaves out what was not measured.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from eunoe.config.renamed import rename_keys
from eunoe.errors import Damaged, InputError
from eunoe.store.integrity import changed_files
from eunoe.store.run_records import RunRecords, numbers, relabeled
from eunoe.store.shapes import METRICS, PARTITION, PROBE, STATUS, TIMING, checked
from eunoe.system.files import each_line, read_json, read_toml

logger = logging.getLogger(__name__)


def read_run(folder: str | Path, begun: bool = True) -> RunRecords:
    """Read a run folder; the label is the run's name, or what it does.

    A folder without a finished round is refused, unless `begun` is False.
    """
    folder = Path(folder)
    config, metrics = read_run_config(folder), list(each_round(folder / "metrics.jsonl"))
    if begun and not metrics:
        raise InputError(f"{folder} has no finished round (metrics.jsonl); name the folder of a run")
    for name in changed_files(folder, config):
        logger.warning("%s is not what the run wrote", folder / name)
    partition = checked(PARTITION, read_json(folder / "partition.json"), folder / "partition.json")
    counts, status = partition.get("label_counts"), read_status(folder)
    run = RunRecords(
        label="",
        metrics=metrics,
        probes=list(each_shaped(folder / "probes.jsonl", PROBE)),
        timings=list(each_shaped(folder / "timings.jsonl", TIMING)),
        config=config,
        environment=read_json(folder / "environment.json"),
        label_counts=None if counts is None else numbers(counts),
        class_names=partition.get("class_names"),
        client_names=partition.get("client_names"),
        flower=(folder / "flower.json").exists(),
        **({"status": status} if status else {}),
    )
    return relabeled(run, run.checked_config.title)


def each_round(path: Path) -> Iterator[dict[str, Any]]:
    """The records of metrics.jsonl, one for each round from the first on."""
    for round, record in enumerate(each_shaped(path, METRICS), start=1):
        if record.get("round") != round:
            raise Damaged(
                f"line {round} of {path} is of round {record.get('round')!r}: a line is missing or doubled; "
                "restore the file"
            )
        yield record


def each_shaped(path: Path, shape: TypeAdapter[Any]) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file, each of the same shape."""
    for number, record in enumerate(each_line(path), start=1):
        yield checked(shape, record, f"line {number} of {path}")


def read_run_config(folder: Path) -> dict[str, Any]:
    """The configuration in a run folder."""
    try:
        return rename_keys(read_toml(folder / "config.toml"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder} is not a run folder: it has no config.toml") from None


def read_status(folder: Path) -> dict[str, Any]:
    """The status of a run; empty before it started."""
    return checked(STATUS, read_json(folder / "status.json"), folder / "status.json")
