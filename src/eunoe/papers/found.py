"""The existing runs of an exhibit: in run folders, or in the table of stored results."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eunoe.config.schema import RESUMABLE
from eunoe.errors import InputError
from eunoe.papers.exhibit import Exhibit, PlannedRun, Scale
from eunoe.papers.store import RunKey, StoredRun, key_of, load, load_keys, path_of, read_folder, save
from eunoe.simulation.stored_config import resolved
from eunoe.simulation.streams import with_streams
from eunoe.system.files import plain


@dataclass(frozen=True)
class FoundRun:
    """An existing run of an exhibit: its plan and its records."""

    planned: PlannedRun
    run: StoredRun


def in_folders(exhibit: Exhibit, scale: Scale, out: Path) -> list[FoundRun]:
    """The runs whose folders are below `out`."""
    return _matched(exhibit, scale, [read_folder(planned) for planned in _begun(exhibit, scale, out)], out)


def in_store(exhibit: Exhibit, scale: Scale, results: Path) -> list[FoundRun]:
    """The runs that are stored in a folder of results."""
    return _matched(exhibit, scale, load(path_of(results, exhibit), scale), results)


def count(exhibit: Exhibit, scale: Scale, out: Path, results: Path) -> int:
    """The number of runs below `out`, or else stored, without reading them."""
    if scale not in exhibit.scales:
        return 0
    folders = _begun(exhibit, scale, out)
    if folders:
        return len(folders)
    lines = {planned.line for planned in exhibit.plan(scale, [0])}
    keys = load_keys(path_of(results, exhibit))
    return len({(key.line, key.seed) for key in keys if key.scale == scale and key.line in lines})


def store_runs(exhibit: Exhibit, out: Path, results: Path) -> list[RunKey]:
    """Store the runs below `out` that are neither running nor failed, replacing earlier ones."""
    found = [one.run for scale in exhibit.scales for one in in_folders(exhibit, scale, out)]
    ended = [run for run in found if run.records.status["state"] not in ("running", "failed")]
    if ended:
        path = path_of(results, exhibit)
        save(path, list({run.key: run for run in (*load(path), *ended)}.values()))
    return [run.key for run in ended]


def _begun(exhibit: Exhibit, scale: Scale, out: Path) -> list[PlannedRun]:
    """The planned runs that have a folder with a status."""
    folders = (out / exhibit.owner / scale).glob("*/seed-*")
    seeds = sorted({int(path.name[5:]) for path in folders if path.name[5:].isdigit()})
    plans = _plans(exhibit, scale, seeds, out)
    return [planned for planned in plans if (planned.folder / "status.json").exists()]


def _plans(exhibit: Exhibit, scale: Scale, seeds: list[int], out: Path) -> list[PlannedRun]:
    both = [planned for stood in (False, True) for planned in exhibit.plan(scale, seeds, stood, out=out)]
    return list({planned.folder: planned for planned in both}.values())


def _matched(exhibit: Exhibit, scale: Scale, runs: Iterable[StoredRun], place: Path) -> list[FoundRun]:
    """Runs with their plans; stand-in runs are used where there are none on the paper's data."""
    by_key = {run.key: run for run in runs}
    plans = _plans(exhibit, scale, sorted({key.seed for key in by_key}), place)
    found = [FoundRun(p, by_key[key_of(p)]) for p in plans if key_of(p) in by_key]
    for one in found:
        check_config(one, place)
    real = {one.planned.line for one in found if not one.planned.stand_in}
    return [one for one in found if not one.planned.stand_in or one.planned.line not in real]


def check_config(found: FoundRun, place: Path) -> None:
    """Refuse a run whose configuration is not the one that the exhibit plans."""
    configs = (found.run.records.checked_config, found.planned.config)
    was, planned = (_flat(plain(resolved(with_streams(config)))) for config in configs)
    for name in {**was, **planned}:
        if name.startswith("preprocessing.") and name not in planned:
            # What the run used, which follows from the data.
            continue
        if name.partition(".")[0] not in RESUMABLE and was.get(name) != planned.get(name):
            raise InputError(
                f"{name} is {was.get(name)!r} in the run {found.planned.title} of {place} and "
                f"{planned.get(name)!r} in the exhibit: choose another folder with --out, or remove the run"
            )


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
