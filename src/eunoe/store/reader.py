"""Reads run folders and labels runs; the keys of their records are in store/schema.py.

All files but config.toml may be missing, and the report leaves out what was not measured. Numbers that do not
exist are null in the files and NaN in arrays.
"""

import json
import logging
import re
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from eunoe.config.schema import RESUMABLE, Config, make_config
from eunoe.config.settings import absolute_paths, rename_keys
from eunoe.errors import Damaged, EunoeError, InputError, join_names
from eunoe.store.line_file import LineFile
from eunoe.store.run_records import RunRecords, last_rounds, numbers, relabel
from eunoe.store.schema import (
    PROBES,
    PartitionRecord,
    ProbeRecord,
    RoundRecord,
    StatusRecord,
    TimingRecord,
    validate,
)
from eunoe.system.files import check_regular, each_line, parse_json, read_json, read_toml

logger = logging.getLogger(__name__)


def read_run(folder: str | Path, begun: bool = True, whole: bool = True) -> RunRecords:
    """Read a run folder; the label is the run's name, or method and loss.

    A folder without a finished round is refused, unless `begun` is False. Without `whole`, numbers by client
    that no table or figure shows are left out, about half of a record.
    """
    folder = Path(folder)
    config, rounds = read_run_config(folder), _read_rounds(folder / "metrics.jsonl")
    metrics = list(rounds if whole else _without_clients(rounds, last_rounds(config)))
    if begun and not metrics:
        raise InputError(f"{folder} has no finished round (metrics.jsonl): pass the folder of a run that has")
    for name in changed_files(folder, config):
        logger.warning("%s changed since the run wrote it", folder / name)
    partition, status = read_partition(folder), read_status(folder)
    counts = partition.get("label_counts")
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
    return relabel(run, run.checked_config.title)


def read_run_config(folder: Path) -> dict[str, Any]:
    """Return the configuration in a run folder, with the keys of this version."""
    try:
        return rename_keys(read_toml(folder / "config.toml"))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder} is not a run folder: it has no config.toml") from None


def read_status(folder: Path) -> dict[str, Any]:
    """Return the status of a run; empty before it started."""
    return _read_record(folder / "status.json", StatusRecord)


def read_partition(folder: Path) -> dict[str, Any]:
    """Return the labels of a run's clients; empty if they were not recorded."""
    return _read_record(folder / "partition.json", PartitionRecord)


def _read_record(path: Path, kind: Any) -> dict[str, Any]:
    """Return the validated record of a file; empty if there is no file."""
    record = read_json(path)
    return validate(record, kind, path) if record else record


def _read_rounds(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of metrics.jsonl, one for each round from the first on."""
    for round, record in enumerate(read_records(path, RoundRecord), start=1):
        if record.get("round") != round:
            raise Damaged(f"line {round} of {path} is of round {record.get('round')!r}: restore the file")
        yield record


def _without_clients(records: Iterator[dict[str, Any]], last: int) -> Iterator[dict[str, Any]]:
    """Remove losses and norms of clients, and `by_client` of all but the last rounds of each section."""
    kept: dict[str, deque[tuple[int, dict[str, Any]]]] = {}
    for record in records:
        for name in ("loss_before", "loss_after", "update_norms"):
            record.pop(name, None)
        for name, section in record.items():
            if isinstance(section, dict) and section.get("by_client"):
                sections = kept.setdefault(name, deque())
                sections.append((record["round"], section))
                while sections[0][0] <= record["round"] - last:
                    del sections.popleft()[1]["by_client"]
        yield record


def read_records(path: Path, kind: Any, tail: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the validated records of a JSON Lines file, or only those in so many bytes at its end."""
    part = "" if tail is None else "the end of "
    for number, record in enumerate(each_line(path, tail), start=1):
        probe = str(record.get("probe")) if kind is ProbeRecord else ""
        yield validate(record, PROBES.get(probe, kind), f"line {number} of {part}{path}")


def changed_files(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """Return the files that do not match their digests in the newest readable checkpoint."""
    for path in sorted((folder / "checkpoints").glob("*.safetensors"), reverse=True):
        # A damaged checkpoint is reported when the run is resumed.
        with suppress(OSError, SafetensorError, EunoeError, KeyError, TypeError, AttributeError, ValueError):
            check_regular(path)
            with safe_open(path, "pt") as file:
                facts = parse_json(file.metadata()["facts"], path)
            changed = []
            for name, mark in facts["files"].items():
                try:
                    LineFile(folder / name).verify(mark)
                except Damaged:
                    changed.append(name)
            changed += ["status.json"] * (not (folder / "status.json").exists())
            then = rename_keys(tomllib.loads(facts["config"]))
            keys = {*then, *config} - RESUMABLE
            return changed + ["config.toml"] * any(then.get(key) != config.get(key) for key in keys)
    return []


def find_run(path: Path) -> Path:
    """Return a run folder by its path, or by its name in tables if one run below this folder has it."""
    folders = _find_by_name(str(path)) if not path.exists() else []
    if len(folders) > 1:
        raise InputError(f"{len(folders)} runs are named {path}: pass one of {join_names(map(str, folders))}")
    return folders[0] if folders else path


def _find_by_name(name: str) -> list[Path]:
    """Return the runs up to three levels below the working directory with this name in tables."""
    title, *options = name.split(", ")
    matches, depths = [], ("*", "*/*", "*/*/*")
    folders = sorted(path.parent for depth in depths for path in Path().glob(f"{depth}/config.toml"))
    for folder in filter(_is_run, folders):
        with suppress(InputError):
            config = make_config(read_run_config(folder))
            values, pairs = flat_options(config), [option.partition("=") for option in options]
            same = all(str(values.get(key, "none")) == value for key, _, value in pairs)
            short = shorten_titles([config.title])[0].split(", ")
            if (config.title == title and same) or ("=" in config.title and {*name.split(", ")} <= {*short}):
                matches.append(folder)
    return matches


def _is_run(folder: Path) -> bool:
    # A run that was only observed, as by `eunoe.flower.measure`, has no status.
    return any((folder / name).exists() for name in ("status.json", "metrics.jsonl"))


def find_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the run folders at or below paths, or by name; a folder with only a config does not count."""
    folders = []
    for path in paths:
        # In one order on every system, so that a run has the same color in every report.
        candidates = [config.parent for config in path.rglob("config.toml")]
        candidates.sort(key=lambda folder: ([part.casefold() for part in folder.parts], folder))
        if not path.exists():
            candidates = _find_by_name(str(path))
        runs = [folder for folder in candidates if _is_run(folder)]
        if not runs:
            raise InputError(f"{path} contains no run")
        folders += runs
    return folders


def read_runs(folders: Sequence[str | Path], names: Sequence[str] = ()) -> list[RunRecords]:
    """Read several runs; those that differ only in the seed get the same label, others never do."""
    return label_runs([read_run(folder, whole=False) for folder in folders], names)


def label_runs(runs: Sequence[RunRecords], names: Sequence[str] = ()) -> list[RunRecords]:
    """Label runs so that only seeds of one configuration share a label; `names` replaces the labels."""
    groups: dict[str, RunRecords] = {}
    for run in runs:
        groups.setdefault(group_key(run.checked_config), run)
    given = names or name_configs([run.checked_config for run in groups.values()])
    labels = dict(zip(groups, given, strict=False))
    if len(given) != len(groups) or len(set(given)) < len(groups):
        raise InputError(f"--names needs {len(groups)} different names, separated by commas")
    return [relabel(run, labels[group_key(run.checked_config)]) for run in runs]


def name_configs(configs: Sequence[Config]) -> list[str]:
    """Return a name for each configuration; equal names are extended by the options that differ."""
    named, pairs = [], [(config.title, flat_options(config)) for config in configs]
    titles = [title for title, _ in pairs]
    short = dict(zip(titles, shorten_titles(titles), strict=True))
    for title, own in pairs:
        same_title = [options for other, options in pairs if other == title]
        varying = {key for other in same_title for key in {**own, **other} if own.get(key) != other.get(key)}
        # An option that this configuration lacks is named only if all that vary are.
        keys = sorted(varying & own.keys() or varying)
        named.append(", ".join([short[title], *(f"{key}={own.get(key, 'none')}" for key in keys)]))
    return named


def shorten_titles(titles: Sequence[str]) -> list[str]:
    """Shorten titles, such as "method=package.mine:Mine, rounds=9" or "fedavg · ce", to what differs."""
    losses = {title.partition(" · ")[2] for title in titles}
    if len(titles) > 1 and len(losses) == 1:
        titles = [title.partition(" · ")[0] for title in titles]
    parts = [title.split(", ") for title in titles]
    shared = set.intersection(*map(set, parts)) if len(set(titles)) > 1 else set()
    short = [
        ", ".join(_short_setting(part) for part in own if part not in shared or "=" not in part) or title
        for own, title in zip(parts, titles, strict=True)
    ]
    return short if len(set(short)) == len(set(titles)) else list(titles)


def _short_setting(part: str) -> str:
    """Return "feddecorr" for "method=feddecorr:FedDecorr", and "lr=0.1" for "training.lr=0.1"."""
    key, sign, value = part.partition("=")
    if not sign:
        return part
    value = re.sub(r"^(?:[\w.]+\.)?(\w+):\w+", r"\1", value)
    is_name = "." not in key and value[:1].isalpha() and value not in ("True", "False")
    return value if is_name else f"{key.rpartition('.')[2]}={value}"


def group_key(config: Config) -> str:
    """Return a key that is equal for runs that differ only in their seed."""
    return json.dumps([config.title, flat_options(config)], sort_keys=True)


def flat_options(config: Config) -> dict[str, Any]:
    """Return the options that determine a run's results besides its seed, as `section.option`."""
    # With defaults, so that runs of an earlier version compare equal if they lack newer options.
    values = config.model_dump(mode="json", exclude=RESUMABLE - {"rounds"} | {"seed"}, exclude_none=True)
    if config.data.name == "given":
        # Measured on training samples that may follow from the seed.
        values.pop("preprocessing", None)
    flat: dict[str, Any] = {}
    for key, value in absolute_paths(values).items():
        flat |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, Mapping) else {key: value}
    return flat
