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
        # Safetensors' own error is the system's with its name around it.
        raise RunFailed(f"cannot write {path}: {error}; once that is fixed, resume the run") from error


@contextmanager
def replacing(path: Path, sync: bool = True) -> Iterator[Path]:
    """A name to write to, which becomes the file itself when all is written."""
    # A worker that outlives a killed run by a moment may write what the resumed run writes.
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
    """The objects of a JSON Lines file of a run; a last line that is still being written is left out."""
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
    """A value as JSON can say it: an array becomes lists, what is not finite null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
