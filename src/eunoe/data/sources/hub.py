"""Data sets from the Hugging Face hub: downloaded, verified and kept as a .npz file with its record.

All files are of one commit; the record (a .json file of the same name) has the commit and the SHA-256 of
every file, so that two downloads can be compared.
"""

import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple, Protocol, cast

import numpy as np
from pydantic import Field

from eunoe.core.rng import generator
from eunoe.data.arrays import number_ids
from eunoe.data.checks import Array, Labels
from eunoe.data.samples import DataSet
from eunoe.data.sources.images import ImageDecoder, Mode, Size
from eunoe.data.sources.npz import dataset_of, read_npz, write_npz
from eunoe.data.sources.parquet import Columns, count_rows, read_rows
from eunoe.errors import InputError

logger = logging.getLogger(__name__)
# The branch on which the hub keeps every data set as parquet, whatever its owner uploaded.
PARQUET = "refs/convert/parquet"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Source:
    """Which splits and columns of a hub data set make the training and the test part.

    `held_out` is the percentage of each client's samples (of each class's, without clients) that becomes
    the test part of a data set that has none; `test` is then empty.
    """

    repo: str
    train: tuple[str, ...] = ("train",)
    test: tuple[str, ...] = ("test",)
    image: str = "image"
    label: str = "label"
    client: str | None = None
    config: str | None = None
    held_out: int = 0
    mode: Mode | None = None
    size: Size | None = None


class RemoteFile(NamedTuple):
    """A file of a hub repository; its hash is known if the hub states it."""

    path: str
    bytes: int
    sha256: str | None


class Hub(Protocol):
    """The two requests that are sent to the hub."""

    def files(self, repo: str, revision: str) -> tuple[str, list[RemoteFile]]:
        """The commit that a revision currently points to, and its files."""

    def open(self, repo: str, commit: str, path: str) -> BinaryIO:
        """The content of a file, as a stream."""


class HuggingFace:
    """The Hugging Face hub, over the internet."""

    def __init__(self, endpoint: str | None = None) -> None:
        self._endpoint = endpoint

    def files(self, repo: str, revision: str) -> tuple[str, list[RemoteFile]]:
        """The commit that a revision currently points to, and its files."""
        from huggingface_hub import HfApi

        info = HfApi(self._endpoint).dataset_info(repo, revision=revision, files_metadata=True, timeout=30)
        files = [
            RemoteFile(file.rfilename, file.size or 0, file.lfs.sha256 if file.lfs else None)
            for file in info.siblings or []
        ]
        return str(info.sha), files

    def open(self, repo: str, commit: str, path: str) -> BinaryIO:
        """The content of a file, as a stream."""
        from huggingface_hub import HfFileSystem

        # No block size makes it one stream instead of many small requests.
        system = HfFileSystem(endpoint=self._endpoint)
        return cast(BinaryIO, system.open(f"datasets/{repo}@{commit}/{path}", "rb", block_size=0))


def hub(
    repo: str,
    *,
    train: str | tuple[str, ...] = "train",
    test: str | tuple[str, ...] = "test",
    image: str = "image",
    label: str = "label",
    client: str | None = None,
    config: str | None = None,
    revision: str = PARQUET,
    held_out: Annotated[int, Field(ge=0, lt=100)] = 0,
    mode: Mode | None = None,
    size: Size | None = None,
    classes: int | None = None,
) -> DataSet:
    """Any data set of the Hugging Face hub (also named hf:owner/name), by its column and split names.

    `image` is a column of images or of lists of numbers, `client` one of client ids. `held_out` per cent
    of each client's samples (else of each class's) are the test part if there is no `test` split.
    """
    splits = [(part,) if isinstance(part, str) else part for part in (train, test)]
    source = Source(
        repo, splits[0], () if held_out else splits[1], image, label, client, config, held_out, mode, size
    )
    key = hashlib.sha256(json.dumps([asdict(source), revision]).encode()).hexdigest()[:12]
    path = data_folder() / "hub" / f"{repo.replace('/', '--')}-{key}.npz"
    if not path.exists():
        fetch(source, path, revision=revision, classes=classes)
    return dataset_of(read_npz(path), f"hf:{repo}", str(path), classes=classes)


def data_folder() -> Path:
    """Where data sets are kept: $EUNOE_DATA, else ~/.cache/eunoe."""
    return Path(os.environ.get("EUNOE_DATA") or "~/.cache/eunoe").expanduser()


def read_record(path: Path) -> Mapping[str, Any]:
    """The record of where the data set in this file was downloaded from; empty if unknown."""
    try:
        record = json.loads(path.with_suffix(".json").read_text())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def fetch(
    source: Source,
    target: Path,
    *,
    revision: str = PARQUET,
    classes: int | None = None,
    rows: tuple[int, int] | None = None,
    hub: Hub | None = None,
) -> None:
    """Download a data set, verify it, and keep it as `target` with its record."""
    hub = hub or HuggingFace()
    if len(splits := source.train + source.test) != len(set(splits)):
        raise InputError(f"hub data set {source.repo}: a split is named twice in {', '.join(splits)}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
        commit, files = _listed(hub, source, revision)
        local: dict[str, list[Path]] = {}
        record: list[dict[str, object]] = []
        for split in splits:
            for file in split_files(files, split, source):
                path = Path(scratch, file.path.replace("/", "--"))
                digest = _download(hub, source.repo, commit, file, path)
                local.setdefault(split, []).append(path)
                record.append({"path": file.path, "bytes": path.stat().st_size, "sha256": digest})
        parts = [
            [path for split in splits for path in local[split]] for splits in (source.train, source.test)
        ]
        _check_counts(source, parts, rows)
        arrays = _arrays(source, parts)
    # Checked as on loading, so that no bad file is ever kept.
    dataset_of(arrays, source.repo, f"hub data set {source.repo}", classes=classes)
    write_npz(target, arrays)
    about = {"repo": source.repo, "revision": revision, "commit": commit, "files": record}
    partial = target.with_name(f".{target.stem}.{os.getpid()}.json.part")
    partial.write_text(json.dumps(about, indent=1) + "\n")
    partial.replace(target.with_suffix(".json"))


def split_files(files: Sequence[RemoteFile], split: str, source: Source) -> list[RemoteFile]:
    """The parquet files of one split, in order, in the hub's own layout or in that of an owner's branch.

    The hub writes <config>/<split>/0000.parquet; owners write <config>/<split>-00000-of-00002.parquet.
    """
    found: dict[str, list[RemoteFile]] = {}
    splits: set[str] = set()
    for file in sorted(files):
        folders, _, stem = file.path.removesuffix(".parquet").rpartition("/")
        if not file.path.endswith(".parquet"):
            continue
        config, _, parent = folders.rpartition("/")
        if not re.fullmatch(r"\d{4,}", stem):
            config, parent = folders, re.sub(r"-\d{5}-of-\d{5}.*$", "", stem)
        config = "default" if config in ("", "data") else config
        if source.config in (None, config):
            splits.add(parent)
            if parent == split:
                found.setdefault(config, []).append(file)
    if not found:
        has = f"it has {', '.join(sorted(splits))}" if splits else "it has no parquet files"
        raise InputError(f"hub data set {source.repo} has no split {split!r}; {has}")
    if len(found) > 1:
        raise InputError(
            f"hub data set {source.repo} has several configs; set config to one of {', '.join(found)}"
        )
    return next(iter(found.values()))


def held_out_rows(groups: Labels, percent: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows become the test part: `percent` of each group's, rounded down, always the same ones."""
    draw = generator(0, "rows held out for the test part").random(len(groups))
    order = np.lexsort((draw, groups))
    starts, counts = np.unique(groups[order], return_index=True, return_counts=True)[1:]
    rank = np.arange(len(groups)) - np.repeat(starts, counts)
    chosen = np.empty(len(groups), np.bool_)
    chosen[order] = rank < np.repeat(counts * percent // 100, counts)
    return chosen


def _arrays(source: Source, parts: list[list[Path]]) -> dict[str, Array]:
    decoder = ImageDecoder(source.mode, source.size)
    columns = Columns(source.image, source.label, source.client)
    train = read_rows(parts[0], columns, decoder)
    arrays: dict[str, Array] = {}
    if source.test:
        test = read_rows(parts[1], columns, decoder)
        arrays |= {"x_train": train.x, "y_train": train.y, "x_test": test.x, "y_test": test.y}
        if train.clients is not None and test.clients is not None:
            arrays["writer_train"], arrays["writer_test"] = number_ids(train.clients, test.clients)
    else:
        clients = None if train.clients is None else number_ids(train.clients)[0]
        chosen = held_out_rows(train.y if clients is None else clients, source.held_out)
        arrays |= {"x_train": train.x[~chosen], "y_train": train.y[~chosen]}
        arrays |= {"x_test": train.x[chosen], "y_test": train.y[chosen]}
        if clients is not None:
            arrays |= {"writer_train": clients[~chosen], "writer_test": clients[chosen]}
    if train.class_names:
        arrays["class_names"] = np.array(train.class_names)
    return arrays


def _check_counts(source: Source, parts: list[list[Path]], expected: tuple[int, int] | None) -> None:
    counts = tuple(count_rows(files) for files in parts)
    if expected is not None and counts != expected:
        raise InputError(
            f"hub data set {source.repo} has {counts[0]} and {counts[1]} rows to train and test, not "
            f"{expected[0]} and {expected[1]}; choose a revision that has them"
        )


def _listed(hub: Hub, source: Source, revision: str) -> tuple[str, list[RemoteFile]]:
    try:
        return hub.files(source.repo, revision)
    except Exception as error:  # The hub's client raises errors of several HTTP libraries.
        raise _failed(source.repo, error) from error


def _download(hub: Hub, repo: str, commit: str, file: RemoteFile, path: Path) -> str:
    logger.info("downloading %s of %s (%.1f MB)", file.path, repo, file.bytes / 1e6)
    digest = hashlib.sha256()
    try:
        with hub.open(repo, commit, file.path) as stream, path.open("wb") as out:
            while chunk := stream.read(_CHUNK):
                out.write(chunk)
                digest.update(chunk)
    except Exception as error:
        raise _failed(repo, error) from error
    if file.sha256 and digest.hexdigest() != file.sha256:
        raise InputError(
            f"{file.path} of hub data set {repo} is corrupt (its SHA-256 differs); download it again"
        )
    return digest.hexdigest()


def _failed(repo: str, error: Exception) -> InputError:
    reason = f"{type(error).__name__}: {error}".split("\n")[0]
    return InputError(f"the download of hub data set {repo} failed ({reason})")
