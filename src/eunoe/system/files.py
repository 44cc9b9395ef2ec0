"""Atomic writes: a file is there whole or not at all, even if the process is killed or the disk is full."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from eunoe.errors import InputError, RunFailed


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error while writing a file into one that names the file."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        # Safetensors wraps the system's error.
        raise RunFailed(f"cannot write {path}: {error}; once that is fixed, resume the run") from error


@contextmanager
def replacing(path: Path, sync: bool = True) -> Iterator[Path]:
    """A temporary path that replaces the file once it is completely written."""
    # A worker that briefly outlives a killed run may write the same file as the resumed run.
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    with writing(path):
        try:
            yield partial
            if sync:
                with open(partial, "rb") as file:
                    os.fsync(file.fileno())
            partial.rename(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def write_text(path: Path, text: str) -> None:
    """Write a whole file."""
    with replacing(path) as partial:
        partial.write_text(text, "utf-8")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file of a run; an incomplete last line is ignored."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            if number == len(lines):
                break
            raise InputError(
                f"line {number} of {path} is not JSON; restore the file or resume the run"
            ) from None
        if record.get("schema", 1) != 1:
            raise InputError(f"line {number} of {path} has schema {record['schema']!r}; this version reads 1")
        records.append(record)
    return records


def plain(value: Any) -> Any:
    """Convert a value for JSON: arrays to lists, non-finite numbers to null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
