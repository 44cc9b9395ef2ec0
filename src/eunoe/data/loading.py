"""Data sets by name (built in, a file, a folder, hf:owner/name, your own code): load, list, fetch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from eunoe.config import registry
from eunoe.config.settings import path_kind
from eunoe.data.builtin import SPECS, TABLES, fetch_named, get_spec, load_named, path_of, table_path
from eunoe.data.samples import DataSet, checksum
from eunoe.data.sources.hub import data_folder, read_record
from eunoe.data.sources.npz import npz
from eunoe.errors import InputError


def resolve(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the registered name and options: npz, table or folder for a path, hub for hf:owner/name."""
    if name.startswith("hf:"):
        reader, option, value = "hub", "repo", name.removeprefix("hf:")
    else:
        reader, option, value = path_kind(name), "path", name
    if not reader:
        return name, dict(options)
    if option in options:
        raise InputError(f"data set {name!r}: the option {option!r} is already set by the name")
    return reader, {option: value, **options}


def load(name: str, **options: Any) -> DataSet:
    """Load the data set of this name, path or hub address, with these options."""
    if ("/" in name or "\\" in name) and ":" not in name and not path_kind(name):
        raise InputError(f"there is no folder {name}; your own data set is a folder or a .npz file")
    if path_kind(name) in ("npz", "table") and not Path(name).expanduser().exists():
        raise InputError(f"there is no file {name}; name an existing one, or its full path")
    name, options = resolve(name, options)
    data = registry.build("data_set", name, options)
    if not isinstance(data, DataSet):
        raise InputError(f"data set {name!r} returned a {type(data).__name__}, not an eunoe DataSet")
    return data


# Data sets that come with scikit-learn.
EMBEDDED = ("digits", "digit_attributes", "diabetes")
COLUMNS = ("data set", "train", "test", "classes", "clients", "MB", "SHA-256", "description")
# The cells of a data set, by column; those that are unknown are missing.
Entry = dict[str, str]


def entries() -> list[Entry]:
    """Return all built-in data sets, downloaded or not, then the other .npz files of the data folder."""
    built_in = [entry(name) for name in [*EMBEDDED, *SPECS, *TABLES]]
    others = sorted(path for path in data_folder().glob("*.npz") if path.stem not in SPECS)
    from_hub = sorted((data_folder() / "hub").glob("*.npz"))
    return built_in + [_describe(path.stem, path) for path in others + from_hub]


def entry(name: str) -> Entry:
    """Return the entry of one built-in data set."""
    if name in EMBEDDED:
        return _describe(name, None)
    missing = {"data set": name, "SHA-256": "not downloaded"}
    if name in TABLES:
        try:
            return _describe(name, table_path(name))
        except InputError:
            return {**missing, "classes": str(TABLES[name]["classes"])}
    spec, path = get_spec(name), path_of(name)
    if path.exists():
        return _describe(name, path)
    sizes = {"train": f"{spec.rows[0]:,}", "test": f"{spec.rows[1]:,}"} if spec.rows[1] else {}
    return {
        **missing,
        **sizes,
        "classes": str(spec.classes),
        "description": spec.hub.repo if spec.hub else "",
    }


def fetch(name: str, *, revision: str | None = None, force: bool = False) -> Entry:
    """Download a built-in data set unless it exists (or `force` is set)."""
    get_spec(name)
    if force or not path_of(name).exists():
        fetch_named(name, revision)
    elif revision is not None:
        load_named(name, revision)
    return entry(name)


def _describe(name: str, path: Path | None) -> Entry:
    """Return the entry of a data set that is here; its hash is that of inputs and labels, in order."""
    try:
        data = load(name) if path is None or name in SPECS or name in TABLES else npz(path)
    except InputError as error:
        return {"data set": name, "SHA-256": "unusable", "description": str(error)}
    found = {"data set": name, "train": f"{len(data.train):,}", "test": f"{len(data.test):,}"}
    found |= {"classes": str(data.classes), "SHA-256": (sha256 := checksum(data.train, data.test))[:12]}
    if data.owners is not None:
        found["clients"] = f"{len(np.unique(data.owners)):,}"
    if path is None:
        return {**found, "description": "scikit-learn"}
    found["MB"] = f"{path.stat().st_size / 1e6:.1f}"
    record, official = read_record(path), SPECS[name].sha256 if name in SPECS else None
    about = [f"{record['repo']}@{str(record['commit'])[:12]}"] if {"repo", "commit"} <= {*record} else []
    if official is not None:
        about.append("official" if sha256 == official else "not the official arrays")
    return {**found, "description": ", ".join(about)}
