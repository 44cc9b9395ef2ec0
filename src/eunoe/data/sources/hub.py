"""Data sets from the Hugging Face hub: downloaded, verified and stored as a .npz file with a record.

All files are of one commit. The record (a .json file of the same name) has the commit and the SHA-256 of
every file, so that two downloads can be compared.
"""

import hashlib
import io
import json
import logging
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple, cast

import numpy as np
from pydantic import Field

from eunoe.data.arrays import number_ids
from eunoe.data.checks import Array
from eunoe.data.samples import DataSet
from eunoe.data.sources.frames import get_column
from eunoe.data.sources.images import ImageDecoder, Mode, Size
from eunoe.data.sources.npz import make_dataset, read_npz, write_npz
from eunoe.data.split import fixed_test_rows
from eunoe.errors import EunoeError, InputError, join_names
from eunoe.system.files import make_folder, read_json, write_text

logger = logging.getLogger(__name__)
# The branch on which the hub has every data set as parquet, whatever its owner uploaded.
PARQUET = "refs/convert/parquet"
_CHUNK = 1 << 20
_BATCH_ROWS = 1000


@dataclass(frozen=True)
class HubSpec:
    """The splits and columns of a hub data set; without `test` splits, `held_out` percent are tested."""

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

    @property
    def columns(self) -> list[str]:
        return [self.image, self.label, *([self.client] if self.client else [])]


class RemoteFile(NamedTuple):
    """A file of a hub repository, with its hash if the hub provides it."""

    path: str
    bytes: int
    sha256: str | None


def list_files(repo: str, revision: str) -> tuple[str, list[RemoteFile]]:
    """Return the commit that a revision points to, and its files."""
    from huggingface_hub import HfApi

    info = HfApi().dataset_info(repo, revision=revision, files_metadata=True, timeout=30)
    files = [
        RemoteFile(file.rfilename, file.size or 0, file.lfs.sha256 if file.lfs else None)
        for file in info.siblings or []
    ]
    return str(info.sha), files


def open_file(repo: str, commit: str, path: str) -> BinaryIO:
    """Open a file as a stream."""
    from huggingface_hub import HfFileSystem

    # A block size of 0 makes it one stream instead of many small requests.
    return cast(BinaryIO, HfFileSystem().open(f"datasets/{repo}@{commit}/{path}", "rb", block_size=0))


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

    `image` is a column of images or of lists of numbers, `client` one of client ids. `held_out` percent
    of each client's samples (of each class's, without clients) are the test part if there is no `test` split.
    """
    splits = [(part,) if isinstance(part, str) else part for part in (train, test)]
    spec = HubSpec(
        repo, splits[0], () if held_out else splits[1], image, label, client, config, held_out, mode, size
    )
    key = hashlib.sha256(json.dumps([asdict(spec), revision]).encode()).hexdigest()[:12]
    path = data_folder() / "hub" / f"{repo.replace('/', '--')}-{key}.npz"
    if not path.exists():
        fetch(spec, path, revision=revision, classes=classes)
    return make_dataset(read_npz(path), f"hf:{repo}", str(path), classes=classes)


def data_folder() -> Path:
    """Return the folder of data sets: $EUNOE_DATA, else ~/.cache/eunoe."""
    return Path(os.environ.get("EUNOE_DATA") or "~/.cache/eunoe").expanduser()


def read_record(path: Path) -> Mapping[str, Any]:
    """Return the record of the download of a data set file; empty if there is none."""
    try:
        return read_json(path.with_suffix(".json"))
    except (EunoeError, NotADirectoryError):
        return {}


def fetch(
    spec: HubSpec,
    target: Path,
    *,
    revision: str = PARQUET,
    classes: int | None = None,
    rows: tuple[int, int] | None = None,
) -> None:
    """Download and verify a data set, and store it as `target` with its record."""
    if len(splits := spec.train + spec.test) != len(set(splits)):
        raise InputError(f"hub data set {spec.repo}: a split is named twice in {', '.join(splits)}")
    make_folder(target.parent)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
        try:
            record, parts = _download(spec, revision, Path(scratch))
        except InputError:
            raise
        except Exception as error:  # The hub client raises errors of several HTTP libraries.
            reason = f"{type(error).__name__}: {error}".split("\n")[0]
            raise InputError(f"the download of hub data set {spec.repo} failed ({reason})") from error
        counts = tuple(count_rows(files) for files in parts)
        if rows is not None and counts != rows:
            raise InputError(
                f"hub data set {spec.repo} has {counts[0]} training and {counts[1]} test rows, not "
                f"{rows[0]} and {rows[1]}; use another revision"
            )
        arrays = _read_arrays(spec, parts)
    # Checked as on loading, so that no bad file is stored.
    make_dataset(arrays, spec.repo, f"hub data set {spec.repo}", classes=classes)
    write_npz(target, arrays)
    write_text(target.with_suffix(".json"), json.dumps(record, indent=1) + "\n")


def _download(spec: HubSpec, revision: str, folder: Path) -> tuple[dict[str, Any], list[list[Path]]]:
    """Download the files of all splits; return the record, and the paths of both parts."""
    commit, files = list_files(spec.repo, revision)
    record: list[dict[str, object]] = []
    parts: list[list[Path]] = []
    for splits in (spec.train, spec.test):
        parts.append([])
        for file in [file for split in splits for file in split_files(files, split, spec)]:
            logger.info("downloading %s of %s (%.1f MB)", file.path, spec.repo, file.bytes / 1e6)
            path, digest = folder / file.path.replace("/", "--"), hashlib.sha256()
            with open_file(spec.repo, commit, file.path) as stream, path.open("wb") as out:
                while chunk := stream.read(_CHUNK):
                    out.write(chunk)
                    digest.update(chunk)
            if file.sha256 and digest.hexdigest() != file.sha256:
                raise InputError(f"{file.path} of {spec.repo} is corrupt (SHA-256 mismatch); try again")
            parts[-1].append(path)
            record.append({"path": file.path, "bytes": path.stat().st_size, "sha256": digest.hexdigest()})
    return {"repo": spec.repo, "revision": revision, "commit": commit, "files": record}, parts


def split_files(files: Sequence[RemoteFile], split: str, spec: HubSpec) -> list[RemoteFile]:
    """Return the parquet files of one split, in order.

    The hub writes <config>/<split>/0000.parquet; owners write <config>/<split>-00000-of-00002.parquet.
    """
    by_config: dict[str, list[RemoteFile]] = {}
    splits: set[str] = set()
    for file in sorted(files):
        folders, _, stem = file.path.removesuffix(".parquet").rpartition("/")
        if not file.path.endswith(".parquet"):
            continue
        config, _, parent = folders.rpartition("/")
        if not re.fullmatch(r"\d{4,}", stem):
            config, parent = folders, re.sub(r"-\d{5}-of-\d{5}.*$", "", stem)
        config = "default" if config in ("", "data") else config
        if spec.config in (None, config):
            splits.add(parent)
            if parent == split:
                by_config.setdefault(config, []).append(file)
    if not by_config:
        has = f"it has {', '.join(sorted(splits))}" if splits else "it has no parquet files"
        raise InputError(f"hub data set {spec.repo} has no split {split!r}; {has}")
    if len(by_config) > 1:
        raise InputError(f"hub data set {spec.repo}: set config to one of {', '.join(by_config)}")
    return next(iter(by_config.values()))


def _read_arrays(spec: HubSpec, files: list[list[Path]]) -> dict[str, Array]:
    """Return the arrays of both parts; without test files, the rows held out are the test part."""
    decoder = ImageDecoder(spec.mode, spec.size)
    parts = [read_columns(part, spec, decoder) for part in files if part]
    if spec.client:
        numbers = number_ids(*(part["writer"] for part in parts))
        parts = [{**part, "writer": ids} for part, ids in zip(parts, numbers, strict=True)]
    if not spec.test:
        tested = fixed_test_rows(parts[0]["writer" if spec.client else "y"], spec.held_out)
        parts = [{key: values[rows] for key, values in parts[0].items()} for rows in (~tested, tested)]
    named = zip(("train", "test"), parts, strict=True)
    arrays = {f"{key}_{name}": values for name, part in named for key, values in part.items()}
    if class_names := read_class_names(files[0][-1], spec.label):
        arrays["class_names"] = np.array(class_names)
    return arrays


def count_rows(files: Sequence[Path]) -> int:
    """Return the number of rows of all files together."""
    from pyarrow.parquet import read_metadata

    return sum(read_metadata(file).num_rows for file in files)


def read_columns(files: Sequence[Path], spec: HubSpec, decoder: ImageDecoder) -> dict[str, Array]:
    """Read inputs `x`, labels `y` and, if there is a column of clients, `writer` from all files in order."""
    from pyarrow.parquet import ParquetFile

    count = count_rows(files)
    if count == 0:
        raise InputError(f"{join_names(file.name for file in files)}: no rows; at least one is needed")
    x: Array | None = None
    labels, clients, row = [], [], 0
    for file in files:
        with ParquetFile(file) as table:
            _check_schema(table.schema_arrow, spec, file.name)
            for batch in table.iter_batches(_BATCH_ROWS, columns=spec.columns):
                if empty := [name for name in spec.columns if batch.column(name).null_count]:
                    raise InputError(f"{file.name}: column {empty[0]!r} has empty cells; fill them")
                where = f"{file.name}: column {spec.image!r}, row"
                inputs = _decode_inputs(batch.column(spec.image), decoder, where, row)
                if x is None:
                    x = np.empty((count, *inputs.shape[1:]), inputs.dtype)
                if inputs.shape[1:] != x.shape[1:]:
                    before, now = list(x.shape[1:]), list(inputs.shape[1:])
                    raise InputError(f"{where}s change shape from {before} to {now}; all must be equal")
                x[row : row + len(inputs)] = inputs
                labels.append(batch.column(spec.label).to_numpy(zero_copy_only=False).astype(np.int64))
                if spec.client:
                    clients.append(np.array(batch.column(spec.client).to_pylist()))
                row += len(inputs)
    assert x is not None
    columns: dict[str, Array] = {"x": x, "y": np.concatenate(labels)}
    return {**columns, "writer": np.concatenate(clients)} if clients else columns


def _check_schema(schema: Any, spec: HubSpec, file: str) -> None:
    from pyarrow import types

    for name in spec.columns:
        get_column(schema.empty_table(), name, file)
    kind = schema.field(spec.label).type
    if not types.is_integer(kind):
        raise InputError(f"{file}: column {spec.label!r} is {kind}; labels must be integers")
    kind = schema.field(spec.client).type if spec.client else kind
    if not (types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)):
        raise InputError(f"{file}: column {spec.client!r} is {kind}; client ids must be integers or strings")


def read_class_names(file: Path, label: str) -> tuple[str, ...] | None:
    """Return the class names that the `datasets` library writes into the metadata, if any."""
    from pyarrow.parquet import read_schema

    try:
        value: Any = json.loads((read_schema(file).metadata or {}).get(b"huggingface", b"null"))
    except ValueError:
        return None
    for key in ("info", "features", label, "names"):
        value = value.get(key) if isinstance(value, dict) else None
    return tuple(str(name) for name in value) if isinstance(value, list) else None


def _decode_inputs(column: Any, decoder: ImageDecoder, where: str, row: int) -> Array:
    """Decode a batch of images (bytes, or a struct with bytes) or of lists of numbers of equal length."""
    from pyarrow import compute, types

    if types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0:
        column = column.field("bytes")
        if column.null_count:
            raise InputError(f"{where}s have no bytes; images stored as a path only cannot be read")
    if types.is_binary(column.type) or types.is_large_binary(column.type):
        images = enumerate(column.to_pylist(), start=row)
        return np.stack([decoder.decode(io.BytesIO(data), f"{where} {i}") for i, data in images])
    shape = [len(column)]
    while types.is_nested(column.type) and not types.is_struct(column.type):
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()
        if len(lengths) != 1:
            raise InputError(f"{where}s {row} to {row + shape[0] - 1} have lists of unequal length")
        shape.append(lengths[0])
        column = column.flatten()
    numeric = types.is_integer(column.type) or types.is_floating(column.type)
    if not numeric or column.null_count or len(shape) == 1:
        raise InputError(f"{where}s are {column.type}; images or lists of numbers are needed")
    return np.asarray(column.to_numpy(zero_copy_only=False)).reshape(shape)
