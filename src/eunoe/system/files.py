"""Files: written whole or not at all, whatever happens to the process or the disk; read with one clear line.

Every reader here gives what was written or raises: `Damaged` where the file is not what it should be,
`RunFailed` where the machine cannot read it now.
"""

import json
import math
import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from eunoe.errors import Damaged, InputError, RunFailed, first_line
from eunoe.text import printable

# No file of text that a run or a user writes is larger; a larger one is something else.
MOST_TEXT = 1 << 30


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
                sync_to_disk(partial)
            partial.rename(path)
            if sync:
                sync_to_disk(path.parent)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def sync_to_disk(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def remove(path: Path) -> None:
    """Remove a file, or whatever is in its place, if it is there."""
    with writing(path):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a whole file."""
    with replacing(path) as partial:
        partial.write_text(text, "utf-8")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an error of the machine while reading a file into one that names the file."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except IsADirectoryError:
        raise Damaged(f"{path} is a folder, not a file") from None
    except (OSError, MemoryError) as error:
        raise RunFailed(f"cannot read {path}: {first_line(error)}; once that is fixed, try again") from error


def read_text(path: Path) -> str:
    """The text of a file; one that does not exist raises FileNotFoundError."""
    with reading(path):
        if (size := path.stat().st_size) > MOST_TEXT:
            raise Damaged(f"{path} has {size} bytes, too many for a file of text")
        content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Damaged(f"{path} is not text in UTF-8 (byte {error.start})") from None


def parsed_json(text: str, what: object) -> Any:
    """The value of a JSON text, named in an error."""
    try:
        return json.loads(text)
    # Deep nesting exceeds the stack, a number of thousands of digits what int() takes.
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{what} is not JSON ({first_line(error)}); restore it") from None


def _shown(text: str, what: object) -> Any:
    """The value of a JSON text that is shown to people."""
    value = parsed_json(text, what)
    # Only then can it hold a character that no terminal or page should get.
    return value if text.isascii() and "\\" not in text else _printable(value)


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {printable(key): _printable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_printable(inner) for inner in value]
    return printable(value) if isinstance(value, str) else value


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file; empty if there is no file."""
    try:
        text = read_text(path)
    except FileNotFoundError:
        return {}
    value = _shown(text, path)
    if not isinstance(value, dict):
        raise Damaged(f"{path} holds no JSON object; restore it")
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file; one that does not exist raises FileNotFoundError."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path} is not valid TOML: {first_line(error)}") from None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file of a run; an incomplete last line is ignored."""
    try:
        lines = read_text(path).split("\n")
    except FileNotFoundError:
        return []
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = _shown(line, f"line {number} of {path}")
        except Damaged:
            if number == len(lines):
                break
            raise
        if not isinstance(record, dict):
            raise Damaged(f"line {number} of {path} holds no JSON object; restore it")
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
