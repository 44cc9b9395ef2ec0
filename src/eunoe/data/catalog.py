"""The catalog of data sets: those that are built in, and those in the data folder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eunoe.data.builtin import fetch_named, get_spec, load_named, path_of, table_path
from eunoe.data.loading import load
from eunoe.data.samples import checksum
from eunoe.data.sources.hub import data_folder, read_record
from eunoe.data.sources.npz import npz
from eunoe.data.specs import SPECS, TABLES
from eunoe.errors import InputError

# Data sets that come with scikit-learn.
EMBEDDED = ("digits", "digit_attributes", "diabetes")


@dataclass(frozen=True)
class Entry:
    """A data set in the catalog; `path` is None if there is no file, `problem` is why it is unusable.

    `sha256` is that of the arrays x_train, y_train, x_test, y_test one after the other; `official` says
    whether it equals the one in the specification, if there is one.
    """

    name: str
    path: Path | None
    here: bool
    classes: int | None = None
    train: int | None = None
    test: int | None = None
    clients: int | None = None
    bytes: int | None = None
    sha256: str | None = None
    official: bool | None = None
    source: str | None = None
    problem: str | None = None


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
    if name in TABLES:
        try:
            return _describe(name, table_path(name))
        except InputError:
            return Entry(name, None, False, TABLES[name]["classes"])
    spec, path = get_spec(name), path_of(name)
    if path.exists():
        return _describe(name, path)
    train, test = spec.rows if spec.rows[1] else (None, None)
    return Entry(name, path, False, spec.classes, train, test, source=spec.hub.repo if spec.hub else None)


def fetch(name: str, *, revision: str | None = None, force: bool = False) -> Entry:
    """Download a built-in data set unless it exists (or `force` is set)."""
    get_spec(name)
    if force or not path_of(name).exists():
        fetch_named(name, revision)
    elif revision is not None:
        load_named(name, revision)
    return entry(name)


def _describe(name: str, path: Path | None) -> Entry:
    try:
        data = load(name) if path is None or name in SPECS or name in TABLES else npz(path)
    except InputError as error:
        return Entry(name, path, True, problem=str(error))
    official = SPECS[name].sha256 if name in SPECS else None
    sha256 = checksum(data.train, data.test)
    source = "scikit-learn" if path is None else None
    if path is not None and {"repo", "commit"} <= (record := read_record(path)).keys():
        source = f"{record['repo']}@{str(record['commit'])[:12]}"
    return Entry(
        name,
        path,
        True,
        data.classes,
        len(data.train),
        len(data.test),
        clients=None if data.owners is None else len(np.unique(data.owners)),
        bytes=None if path is None else path.stat().st_size,
        sha256=sha256,
        official=None if official is None else sha256 == official,
        source=source,
    )
