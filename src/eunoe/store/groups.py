"""Several runs: found below folders, and labeled by what distinguishes them besides the seed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eunoe.config.schema import RESUMABLE, Config
from eunoe.config.settings import absolute_paths
from eunoe.errors import InputError
from eunoe.store.reader import read_run
from eunoe.store.run_records import RunRecords, relabeled


def read_runs(folders: Sequence[str | Path]) -> list[RunRecords]:
    """Read several runs; those that differ only in the seed get the same label, others never do."""
    return labeled([(read_run(folder), Path(folder).resolve().name) for folder in folders])


def labeled(runs: Sequence[tuple[RunRecords, str]]) -> list[RunRecords]:
    """Label runs (with the names of their folders) so that only seeds of one configuration share a label."""
    labels: dict[str, str] = {}
    found = []
    for run, place in runs:
        key = group_key(run.checked_config)
        if key not in labels:
            labels[key] = f"{run.label} ({place})" if run.label in labels.values() else run.label
        found.append(relabeled(run, labels[key]))
    return found


def settings(config: Config) -> dict[str, Any]:
    """The options that determine a run's results besides its seed, as `section.option`."""
    # With defaults, so that options unknown to an earlier version do not set its runs apart.
    kept = config.model_dump(mode="json", exclude=RESUMABLE - {"rounds"} | {"seed"}, exclude_none=True)
    if config.data.name == "given":
        # Measured on training samples that may follow from the seed.
        kept.pop("preprocessing", None)
    flat: dict[str, Any] = {}
    for key, value in absolute_paths(kept).items():
        flat |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, Mapping) else {key: value}
    return flat


def group_key(config: Config) -> str:
    """A key that is equal for runs that differ only in their seed."""
    return json.dumps([config.title, settings(config)], sort_keys=True)


def find_folders(paths: Sequence[Path]) -> list[Path]:
    """The run folders at or below these paths; a folder with only a config does not count."""
    found = []
    for path in paths:
        places = sorted(config.parent for config in path.rglob("config.toml"))
        # A run that was only observed, as by `eunoe.flower.measure`, has no status.
        files = ("status.json", "metrics.jsonl")
        folders = [place for place in places if any((place / name).exists() for name in files)]
        if not folders:
            raise InputError(f"{path} holds no run")
        found += folders
    return found
