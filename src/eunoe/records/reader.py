"""The records of a run, as files and as arrays.

A run folder has JSON Lines files, one object per line and round or probe. Numbers that do not exist are null
(accuracy of a class without test samples, forgetting in the first round) and become NaN here.

metrics.jsonl, one line per round ("validation" or "test" is null in a round where it was not measured):
    {"schema": 1, "round": 7, "clients": [3, 5], "dropped": [], "bytes_up": 80, "bytes_down": 80,
     "validation": {"accuracy": 0.6, "loss": 1.1, "per_class": [0.5, 0.7]}, "test": {the same},
     "forgetting": {"round": 0.02, "fedntd": 0.05},
     "personal": {"clients": 20, "without_prior": 0.6, "with_prior": 0.7}}

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
    {"schema": 1, "label_counts": [[train labels per class] per client], "class_names": ["cat", ...] or null}

config.toml and environment.json are the run's settings and where it ran.
All but metrics.jsonl may be missing; the page leaves out what was not measured.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eunoe.config.paths import placed
from eunoe.config.schema import RESUMABLE, Config, make_config
from eunoe.errors import InputError
from eunoe.runs.folder import read_run_config
from eunoe.system.files import read_lines

Array = NDArray[np.float64]
Record = Mapping[str, Any]


def numbers(values: Any) -> Array:
    """Nested lists as an array, None as NaN."""
    return np.asarray(values, dtype=object).astype(np.float64)


@dataclass(frozen=True)
class RunRecords:
    """All that is known about one run; runs of the same label are the seeds of one setting."""

    label: str
    metrics: Sequence[Record]
    probes: Sequence[Record] = ()
    timings: Sequence[Record] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    label_counts: Array | None = None
    class_names: Sequence[str] | None = None

    @property
    def part(self) -> str:
        """The data that the curves are on: the test set where it was measured, else the validation sets."""
        return "test" if any(record.get("test") for record in self.metrics) else "validation"

    @property
    def measured(self) -> list[Record]:
        """The rounds with an evaluation, in order."""
        return [record for record in self.metrics if record.get(self.part)]

    @property
    def rounds(self) -> list[int]:
        """The numbers of the measured rounds."""
        return [int(record["round"]) for record in self.measured]

    def curve(self, name: str) -> Array:
        """Accuracy or loss of the global model over the measured rounds."""
        return numbers([record[self.part].get(name) for record in self.measured])

    @property
    def last(self) -> int:
        """How many last rounds a result is the mean of; one that was only watched has its last round."""
        return max(int(self.config.get("evaluation", {}).get("last", 1)), 1)

    @property
    def per_class(self) -> Array:
        """Accuracy [measured rounds, classes] of the global model; empty when it was not recorded."""
        rows = [record[self.part].get("per_class") for record in self.measured]
        return numbers(rows) if rows and all(row is not None for row in rows) else np.empty((0, 0))

    @property
    def classes(self) -> int:
        """How many classes were measured; 0 if none were."""
        merged = (len(record[self.part].get("per_class") or ()) for record in self.measured)
        return max([*merged, *(len(record["start"]) for record in self.probe("local_per_class"))], default=0)

    @property
    def lost_per_class(self) -> Array:
        """What each class lost [rounds, classes] in rounds that follow a measured one; a gain is 0."""
        history = self.per_class
        # What went in a gap of several rounds is not what one round takes.
        following = np.diff(self.rounds[: len(history)]) == 1
        lost: Array = np.maximum(history[:-1] - history[1:], 0.0)[following]
        return lost

    def forgetting(self, name: str) -> Array:
        """Round forgetting ("round") or FedNTD's score ("fedntd") over the measured rounds."""
        return numbers([(record.get("forgetting") or {}).get(name) for record in self.measured])

    def names(self, classes: int) -> list[str]:
        """The names of the classes, or their numbers."""
        return list(self.class_names) if self.class_names else [str(label) for label in range(classes)]

    def probe(self, name: str) -> Iterator[Record]:
        """The probes of one kind in order of round."""
        yield from sorted((p for p in self.probes if p["probe"] == name), key=lambda p: int(p["round"]))


def read_run(folder: str | Path) -> RunRecords:
    """Read a run folder; the label is the run's name, or what it does."""
    folder = Path(folder)
    metrics = read_lines(folder / "metrics.jsonl")
    if not metrics:
        raise InputError(f"{folder} has no finished round (metrics.jsonl); name the folder of a run")
    partition, config = _read_json(folder / "partition.json"), read_run_config(folder)
    counts = partition.get("label_counts")
    return RunRecords(
        label=make_config(config).title,
        metrics=metrics,
        probes=read_lines(folder / "probes.jsonl"),
        timings=read_lines(folder / "timings.jsonl"),
        config=config,
        environment=_read_json(folder / "environment.json"),
        label_counts=None if counts is None else numbers(counts),
        class_names=partition.get("class_names"),
    )


def read_runs(folders: Sequence[str | Path]) -> list[RunRecords]:
    """Read several runs; those that differ only in the seed get the same label, others never do."""
    runs: list[RunRecords] = []
    labels: dict[str, str] = {}
    for folder in folders:
        run = read_run(folder)
        key = group_key(make_config(run.config))
        if key not in labels:
            taken = run.label in labels.values()
            labels[key] = f"{run.label} ({Path(folder).resolve().name})" if taken else run.label
        runs.append(replace(run, label=labels[key]))
    return runs


def settings(config: Config) -> dict[str, Any]:
    """What decides a run's results besides its seed, as `section.option`."""
    # With defaults, so that a run of an earlier version is not told apart by options that it did not have.
    kept = config.model_dump(mode="json", exclude=RESUMABLE - {"rounds"} | {"seed"}, exclude_none=True)
    flat: dict[str, Any] = {}
    for key, value in placed(kept).items():
        flat |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, Mapping) else {key: value}
    return flat


def group_key(config: Config) -> str:
    """The same for runs that differ only in their seed."""
    return json.dumps([config.title, settings(config)], sort_keys=True)


def find_folders(paths: Sequence[Path]) -> list[Path]:
    """The run folders at or below these paths; one with a config alone is none."""
    found = []
    for path in paths:
        places = sorted(config.parent for config in path.rglob("config.toml"))
        # What was only watched, as by `eunoe.flower.measure`, has no status.
        files = ("status.json", "metrics.jsonl")
        folders = [place for place in places if any((place / name).exists() for name in files)]
        if not folders:
            raise InputError(f"{path} holds no run")
        found += folders
    return found


def _read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
