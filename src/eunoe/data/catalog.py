"""The catalog of data sets: which are built in, and which are in the data folder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eunoe.data.builtin import digits, fetch_named, load_named, path_of, spec_of
from eunoe.data.builtin_tables import TABLES, table_path
from eunoe.data.builtin_tasks import diabetes, digit_attributes
from eunoe.data.samples import DataSet, checksum
from eunoe.data.sources.hub import Hub, data_folder, read_record
from eunoe.data.sources.npz import npz
from eunoe.data.specs import SPECS
from eunoe.errors import InputError

# Those that come with scikit-learn.
EMBEDDED = {"digits": digits, "digit_attributes": digit_attributes, "diabetes": diabetes}


@dataclass(frozen=True)
class Entry:
    """A data set in the catalog; `path` is None where there is no file, `problem` is why it is unusable.

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
    """All built-in data sets, downloaded or not, then the other .npz files of the data folder."""
    built_in = [entry(name) for name in [*EMBEDDED, *SPECS, *TABLES]]
    others = sorted(path for path in data_folder().glob("*.npz") if path.stem not in SPECS)
    kept = sorted((data_folder() / "hub").glob("*.npz"))
    return built_in + [_described(path.stem, path) for path in others + kept]


def entry(name: str) -> Entry:
    """The entry of one built-in data set."""
    if name in EMBEDDED:
        return _described(name, None)
    if name in TABLES:
        try:
            return _described(name, table_path(name))
        except InputError:
            return Entry(name, None, False, TABLES[name].classes)
    spec, path = spec_of(name), path_of(name)
    if path.exists():
        return _described(name, path)
    rows = spec.rows if spec.rows[1] else (None, None)
    repo = spec.source.repo if spec.source else None
    return Entry(name, path, False, spec.classes, rows[0], rows[1], source=repo)


def fetch(name: str, *, revision: str | None = None, force: bool = False, client: Hub | None = None) -> Entry:
    """Download a built-in data set unless it exists (or `force` is set)."""
    spec_of(name)
    if force or not path_of(name).exists():
        fetch_named(name, revision=revision, client=client)
    elif revision is not None:
        load_named(name, revision)
    return entry(name)


def _described(name: str, path: Path | None) -> Entry:
    try:
        data = _load(name, path)
    except InputError as error:
        return Entry(name, path, True, problem=str(error))
    official = SPECS[name].sha256 if name in SPECS else None
    sha256 = checksum(data.train, data.test)
    return Entry(
        name,
        path,
        True,
        data.classes,
        len(data.train),
        len(data.test),
        None if data.writers_train is None else len(np.unique(data.writers_train.numpy())),
        None if path is None else path.stat().st_size,
        sha256,
        None if official is None else sha256 == official,
        "scikit-learn" if path is None else _source(path),
    )


def _load(name: str, path: Path | None) -> DataSet:
    if path is None:
        return EMBEDDED[name]()
    if name in TABLES:
        return TABLES[name].load()
    return load_named(name) if name in SPECS else npz(path)


def _source(path: Path) -> str | None:
    record = read_record(path)
    if "repo" not in record or "commit" not in record:
        return None
    return f"{record['repo']}@{str(record['commit'])[:12]}"
