"""Existing runs of an experiment: in run folders, or in the compressed table of its stored runs.

`runs/NAME.parquet` below the folder of results has the runs of an experiment at all scales. A row is one
record of a run:

    scale, line, seed, stand_in    which run: its arm, what data stand in for what
    kind                           metrics, probe, config, environment, partition, status or after
    round                          of metrics and probes
    values                         the record, as JSON

Rows hold what `eunoe.store.reader` reads from a run folder, without timings and the numbers of single
clients, which no claim, table or figure needs. Checkpoints and clients' states are not stored, so a stored
run can be shown but not resumed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from eunoe.config.schema import RESUMABLE, make_config
from eunoe.config.settings import flatten, rename_keys
from eunoe.errors import InputError
from eunoe.simulation.resuming import resolved
from eunoe.simulation.streams import with_streams
from eunoe.store.reader import read_run
from eunoe.store.run_records import RunRecords, numbers
from eunoe.system.files import plain, read_json, replacing
from eunoe_papers.experiment import SCALES, Experiment, PlannedRun, Scale

_TEXT, _INTEGER = pa.string(), pa.int64()
SCHEMA = pa.schema(
    {"scale": _TEXT, "line": _TEXT, "seed": _INTEGER, "stand_in": _TEXT, "kind": _TEXT}
    | {"round": _INTEGER, "values": _TEXT}
)
# Keys of metrics that have a number for each client.
SINGLE_CLIENTS = ("by_client", "loss_before", "loss_after", "update_norms")


@dataclass(frozen=True)
class RunKey:
    """Which run of an experiment is meant; `line` is the arm."""

    scale: str
    line: str
    seed: int
    stand_in: str = ""


@dataclass(frozen=True)
class StoredRun:
    """A run of an experiment: its records, and what was measured after its end."""

    key: RunKey
    records: RunRecords
    after: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FoundRun:
    """An existing run of an experiment: its plan and its records."""

    planned: PlannedRun
    run: StoredRun


def find_in_folders(experiment: Experiment, scale: Scale, out: Path) -> list[FoundRun]:
    """Find the runs whose folders are below `out`."""
    runs = [read_folder(planned) for planned in _started(experiment, scale, out)]
    return _match(experiment, scale, runs, out)


def find_stored(experiment: Experiment, scale: Scale, results: Path) -> list[FoundRun]:
    """Find the runs that are stored in a folder of results."""
    return _match(experiment, scale, load(path_of(results, experiment), scale), results)


def count_runs(experiment: Experiment, scale: Scale, out: Path, results: Path) -> int:
    """Count the runs below `out`, or else the stored ones, without reading them."""
    if scale not in experiment.scales:
        return 0
    if folders := _started(experiment, scale, out):
        return len(folders)
    lines = {planned.line for planned in experiment.plan(scale, [0])}
    keys = load_keys(path_of(results, experiment))
    return len({(key.line, key.seed) for key in keys if key.scale == scale and key.line in lines})


def store_runs(experiment: Experiment, out: Path, results: Path) -> list[RunKey]:
    """Store the runs below `out` that are neither running nor failed, replacing earlier ones."""
    runs = [each.run for scale in experiment.scales for each in find_in_folders(experiment, scale, out)]
    ended = [run for run in runs if run.records.status["state"] not in ("running", "failed")]
    if ended:
        path = path_of(results, experiment)
        save(path, list({run.key: run for run in (*load(path), *ended)}.values()))
    return [run.key for run in ended]


def check_config(run: FoundRun, place: Path) -> None:
    """Refuse a run whose config is not the one that the experiment plans."""
    configs = (run.run.records.checked_config, run.planned.config)
    was, planned = (flatten(plain(resolved(with_streams(config)))) for config in configs)
    for name in {**was, **planned}:
        if name.startswith("preprocessing.") and name not in planned:
            # What the run used, which follows from the data.
            continue
        if name.partition(".")[0] not in RESUMABLE and was.get(name) != planned.get(name):
            raise InputError(
                f"the run {run.planned.title} in {place} has {name} = {was.get(name)!r}, but the experiment "
                f"has {planned.get(name)!r}: use another --out, or remove the run"
            )


def _started(experiment: Experiment, scale: Scale, out: Path) -> list[PlannedRun]:
    """Return the planned runs that have a folder with a status."""
    folders = (out / experiment.owner / scale).glob("*/seed-*")
    seeds = sorted({int(path.name[5:]) for path in folders if path.name[5:].isdigit()})
    plans = _plans(experiment, scale, seeds, out)
    return [planned for planned in plans if (planned.folder / "status.json").exists()]


def _plans(experiment: Experiment, scale: Scale, seeds: list[int], out: Path) -> list[PlannedRun]:
    both = [run for stand_in in (False, True) for run in experiment.plan(scale, seeds, stand_in, out=out)]
    return list({planned.folder: planned for planned in both}.values())


def _match(experiment: Experiment, scale: Scale, runs: Iterable[StoredRun], place: Path) -> list[FoundRun]:
    """Match runs with their plans; stand-in runs are used where there are none on the paper's data."""
    by_key = {run.key: run for run in runs}
    plans = _plans(experiment, scale, sorted({key.seed for key in by_key}), place)
    matched = [FoundRun(p, by_key[key_of(p)]) for p in plans if key_of(p) in by_key]
    for run in matched:
        check_config(run, place)
    real = {run.planned.line for run in matched if not run.planned.stand_in}
    return [run for run in matched if not run.planned.stand_in or run.planned.line not in real]


def key_of(planned: PlannedRun) -> RunKey:
    """Return the key of a planned run."""
    return RunKey(planned.scale, planned.line, planned.seed, planned.stand_in)


def path_of(results: Path, experiment: Experiment) -> Path:
    """Return the path of the table that has the runs of an experiment."""
    return results / "runs" / f"{experiment.owner}.parquet"


def save(path: Path, runs: Sequence[StoredRun]) -> None:
    """Write the table of an experiment's runs."""
    rows = [
        {**vars(run.key), "kind": kind, "round": record.get("round"), "values": json.dumps(record)}
        for run in sorted(runs, key=lambda run: (SCALES.index(run.key.scale), run.key.line, run.key.seed))
        for kind, record in _records(run)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    packing = {"compression": "zstd", "compression_level": 19, "row_group_size": 10**6}
    few_values = ["scale", "line", "stand_in", "kind"]
    with replacing(path) as partial:
        parquet.write_table(pa.Table.from_pylist(rows, SCHEMA), partial, use_dictionary=few_values, **packing)


def load(path: Path, scale: Scale | None = None) -> list[StoredRun]:
    """Load the runs in a table, or those at one scale; empty if there is no table."""
    records: dict[RunKey, dict[str, list[Any]]] = {}
    for key, kind, values in _rows(path, [("scale", "=", scale)] if scale else []):
        records.setdefault(key, {}).setdefault(kind, []).append(json.loads(values))
    return [_stored(key, kinds) for key, kinds in records.items()]


def load_keys(path: Path) -> list[RunKey]:
    """List which runs are in a table."""
    return [key for key, _, _ in _rows(path, [("kind", "=", "status")])]


def read_folder(planned: PlannedRun) -> StoredRun:
    """Read a planned run that has started from its folder."""
    measured = read_json(planned.folder / "after.json")
    return StoredRun(key_of(planned), read_run(planned.folder, begun=False), measured)


def without_single_clients(record: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the values of single clients, and validation by class, from a record of metrics."""
    left = {
        key: without_single_clients(value) if isinstance(value, Mapping) else value
        for key, value in record.items()
        if key not in SINGLE_CLIENTS
    }
    if isinstance(left.get("validation"), dict):
        left["validation"].pop("per_class", None)
    return left


def _rows(path: Path, filters: list[tuple[str, str, Any]]) -> Iterator[tuple[RunKey, str, str]]:
    if not path.exists():
        return
    for row in parquet.read_table(path, filters=filters or None).to_pylist():
        yield RunKey(row["scale"], row["line"], row["seed"], row["stand_in"]), row["kind"], row["values"]


def _records(run: StoredRun) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the records of a run with their kinds."""
    records = run.records
    yield from (("metrics", without_single_clients(record)) for record in records.metrics)
    yield from (("probe", record) for record in records.probes)
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
        config=config,
        environment=single("environment"),
        label_counts=None if counts is None else numbers(counts),
        class_names=partition.get("class_names"),
        status=single("status"),
    )
    return StoredRun(key, records, single("after"))
