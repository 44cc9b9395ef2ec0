"""Stored runs of exhibits: all runs of an exhibit in one compressed table.

`runs/NAME.parquet` below the folder of results has the runs of an exhibit at all scales. A row is one record
of a run:

    scale, line, seed, stand_in    which run: its line in the table or figure, what data stand in for what
    kind                           metrics, probe, timing, config, environment, partition, status or after
    round                          of metrics, probes and timings
    values                         the record, as JSON

Rows hold what `eunoe.store.reader` reads from a run folder, without the numbers of each single client,
which no table or figure shows and which would be half of it. Checkpoints and clients' states are not stored,
so a stored run can be shown but not resumed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from eunoe.config.renamed import rename_keys
from eunoe.config.schema import make_config
from eunoe.papers.exhibit import SCALES, Exhibit, PlannedRun, Scale
from eunoe.store.reader import read_run
from eunoe.store.run_records import RunRecords, numbers
from eunoe.system.files import replacing

SCHEMA = pa.schema(
    [
        ("scale", pa.string()),
        ("line", pa.string()),
        ("seed", pa.int64()),
        ("stand_in", pa.string()),
        ("kind", pa.string()),
        ("round", pa.int64()),
        ("values", pa.string()),
    ]
)
# Columns with few distinct values.
_NAMES = ["scale", "line", "stand_in", "kind"]
_PLACE = {str(scale): place for place, scale in enumerate(SCALES)}


@dataclass(frozen=True)
class RunKey:
    """Which run of an exhibit is meant."""

    scale: str
    line: str
    seed: int
    stand_in: str = ""


@dataclass(frozen=True)
class StoredRun:
    """A run of an exhibit: its records, and what was measured after its end."""

    key: RunKey
    records: RunRecords
    after: Mapping[str, float] = field(default_factory=dict)


def key_of(planned: PlannedRun) -> RunKey:
    """The key of a planned run."""
    return RunKey(planned.scale, planned.line, planned.seed, planned.stand_in)


def path_of(results: Path, exhibit: Exhibit) -> Path:
    """The table that the runs of an exhibit are in."""
    return results / "runs" / f"{exhibit.owner}.parquet"


def save(path: Path, runs: Sequence[StoredRun]) -> None:
    """Write the table of an exhibit's runs."""
    rows = [
        {**vars(run.key), "kind": kind, "round": record.get("round"), "values": json.dumps(record)}
        for run in sorted(runs, key=lambda run: (_PLACE[run.key.scale], run.key.line, run.key.seed))
        for kind, record in _records(run)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows, SCHEMA)
    with replacing(path) as partial:
        parquet.write_table(
            table,
            partial,
            compression="zstd",
            compression_level=19,
            use_dictionary=_NAMES,
            row_group_size=10**6,
        )


def load(path: Path, scale: Scale | None = None) -> list[StoredRun]:
    """The runs in a table, or those at one scale; empty if there is no table."""
    found: dict[RunKey, dict[str, list[Any]]] = {}
    for key, kind, values in _rows(path, [("scale", "=", scale)] if scale else []):
        found.setdefault(key, {}).setdefault(kind, []).append(json.loads(values))
    return [_stored(key, kinds) for key, kinds in found.items()]


def load_keys(path: Path) -> list[RunKey]:
    """Which runs are in a table."""
    return [key for key, _, _ in _rows(path, [("kind", "=", "status")])]


def read_folder(planned: PlannedRun) -> StoredRun:
    """Read a planned run that has started from its folder."""
    after = planned.folder / "after.json"
    measured = json.loads(after.read_text("utf-8")) if after.exists() else {}
    return StoredRun(key_of(planned), read_run(planned.folder, begun=False), measured)


def without_single_clients(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record of metrics without what it has by client."""
    return {
        key: without_single_clients(value) if isinstance(value, Mapping) else value
        for key, value in record.items()
        if key != "by_client"
    }


def _rows(path: Path, filters: list[tuple[str, str, Any]]) -> Iterator[tuple[RunKey, str, str]]:
    if not path.exists():
        return
    for row in parquet.read_table(path, filters=filters or None).to_pylist():
        yield RunKey(row["scale"], row["line"], row["seed"], row["stand_in"]), row["kind"], row["values"]


def _records(run: StoredRun) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The records of a run with their kinds."""
    records = run.records
    for kind, lines in {
        "metrics": [without_single_clients(record) for record in records.metrics],
        "probe": records.probes,
        "timing": records.timings,
    }.items():
        yield from ((kind, line) for line in lines)
    counts = records.label_counts
    partition = {
        "label_counts": None if counts is None else counts.astype(int).tolist(),
        "class_names": None if records.class_names is None else list(records.class_names),
    }
    singles = {"config": records.config, "environment": records.environment, "partition": partition}
    for kind, record in {**singles, "status": records.status, "after": run.after}.items():
        if any(value is not None for value in record.values()):
            yield kind, record


def _stored(key: RunKey, kinds: Mapping[str, list[Any]]) -> StoredRun:
    def single(kind: str) -> dict[str, Any]:
        return dict(kinds[kind][0]) if kind in kinds else {}

    config, partition = rename_keys(single("config")), single("partition")
    counts = partition.get("label_counts")
    records = RunRecords(
        label=make_config(config).title,
        metrics=kinds.get("metrics", []),
        probes=kinds.get("probe", []),
        timings=kinds.get("timing", []),
        config=config,
        environment=single("environment"),
        label_counts=None if counts is None else numbers(counts),
        class_names=partition.get("class_names"),
        status=single("status"),
    )
    return StoredRun(key, records, single("after"))
