"""Reads run folders; the keys of their records are in store/schema.py.

All files but config.toml may be missing, and the report leaves out what was not measured. Numbers that do not
exist are null in the files and NaN in arrays.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eunoe.config.renamed import rename_keys
from eunoe.errors import Damaged, InputError
from eunoe.store.integrity import changed_files
from eunoe.store.run_records import RunRecords, numbers, relabeled
from eunoe.store.schema import (
    PROBES,
    PartitionRecord,
    ProbeRecord,
    RoundRecord,
    StatusRecord,
    TimingRecord,
    validate,
)
from eunoe.system.files import each_line, read_json, read_toml

logger = logging.getLogger(__name__)


def read_run(folder: str | Path, begun: bool = True) -> RunRecords:
    """Read a run folder; the label is the run's name, or what it does.

    A folder without a finished round is refused, unless `begun` is False.
    """
    folder = Path(folder)
    config, metrics = read_run_config(folder), list(read_rounds(folder / "metrics.jsonl"))
    if begun and not metrics:
        raise InputError(f"{folder} has no finished round (metrics.jsonl); name the folder of a run")
    for name in changed_files(folder, config):
        logger.warning("%s is not what the run wrote", folder / name)
    partition = validate(read_json(folder / "partition.json"), PartitionRecord, folder / "partition.json")
    counts, status = partition.get("label_counts"), read_status(folder)
    run = RunRecords(
        label="",
        metrics=metrics,
        probes=list(read_records(folder / "probes.jsonl", ProbeRecord)),
        timings=list(read_records(folder / "timings.jsonl", TimingRecord)),
        config=config,
        environment=read_json(folder / "environment.json"),
        label_counts=None if counts is None else numbers(counts),
        class_names=partition.get("class_names"),
        client_names=partition.get("client_names"),
        flower=(folder / "flower.json").exists(),
        **({"status": status} if status else {}),
    )
    return relabeled(run, run.checked_config.title)


def read_rounds(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of metrics.jsonl, one for each round from the first on."""
    for round, record in enumerate(read_records(path, RoundRecord), start=1):
        if record.get("round") != round:
            raise Damaged(
                f"line {round} of {path} is of round {record.get('round')!r}: a line is missing or doubled; "
                "restore the file"
            )
        yield record


def read_records(path: Path, kind: Any) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSON Lines file, validated; those of known probes as what the probe records."""
    for number, record in enumerate(each_line(path), start=1):
        probe = str(record.get("probe")) if kind is ProbeRecord else ""
        yield validate(record, PROBES.get(probe, kind), f"line {number} of {path}")


def read_run_config(folder: Path) -> dict[str, Any]:
    """Return the configuration in a run folder."""
    try:
        return rename_keys(read_toml(folder / "config.toml"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder} is not a run folder: it has no config.toml") from None


def read_status(folder: Path) -> dict[str, Any]:
    """Return the status of a run; empty before it started."""
    return validate(read_json(folder / "status.json"), StatusRecord, folder / "status.json")
