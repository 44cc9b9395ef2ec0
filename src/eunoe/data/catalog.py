"""What data sets there are and which are here, as rows for a table."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eunoe.data.builtin import digits, fetch_named, known_by, load_named, path_of
from eunoe.data.samples import DataSet
from eunoe.data.sources.hub import Hub, data_folder
from eunoe.data.sources.npz import npz
from eunoe.data.specs import KNOWN
from eunoe.errors import InputError


@dataclass(frozen=True)
class Entry:
    """A data set in the catalog; `path` is None where there is no file, `problem` is why it is unusable.

    `sha256` is that of the arrays x_train, y_train, x_test, y_test one after the other; `official` says
    whether it is the known one, where one is known.
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
    """All named data sets, here or not, then the other .npz files of the data folder."""
    known = [entry(name) for name in ["digits", *KNOWN]]
    others = sorted(path for path in data_folder().glob("*.npz") if path.stem not in KNOWN)
    kept = sorted((data_folder() / "hub").glob("*.npz"))
    return known + [_described(path.stem, path) for path in others + kept]


def entry(name: str) -> Entry:
    """What is to be said of one named data set."""
    if name == "digits":
        return _described(name, None)
    known, path = known_by(name), path_of(name)
    if path.exists():
        return _described(name, path)
    rows = known.rows if known.rows[1] else (None, None)
    repo = known.source.repo if known.source else None
    return Entry(name, path, False, known.classes, rows[0], rows[1], source=repo)


def fetch(name: str, *, revision: str | None = None, force: bool = False, client: Hub | None = None) -> Entry:
    """Fetch a named data set unless it is here already (or `force` is given)."""
    known_by(name)
    if force or not path_of(name).exists():
        fetch_named(name, revision=revision, client=client)
    elif revision is not None:
        load_named(name, revision)
    return entry(name)


def checksum(data: DataSet) -> str:
    """The SHA-256 of a data set's inputs and labels, the same however it is stored."""
    digest = hashlib.sha256()
    for samples in (data.train, data.test):
        digest.update(samples.x.contiguous().numpy().data)
        digest.update(samples.y.contiguous().numpy().data)
    return digest.hexdigest()


def _described(name: str, path: Path | None) -> Entry:
    try:
        data = digits() if path is None else load_named(name) if name in KNOWN else npz(path)
    except InputError as error:
        return Entry(name, path, True, problem=str(error))
    official = KNOWN[name].sha256 if name in KNOWN else None
    sha256 = checksum(data)
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


def _source(path: Path) -> str | None:
    try:
        record = json.loads(path.with_suffix(".json").read_text())
        return f"{record['repo']}@{record['commit'][:12]}"
    except (OSError, ValueError, KeyError):
        return None
