"""Files: atomic writes, and bounded reads of regular files with errors of one line.

A reader returns what was written, or raises `Damaged` if the content is wrong and `RunFailed` if the file
cannot be read now.
"""

import errno
import json
import os
import re
import stat
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from typing import Any, cast

from filelock import FileLock
from pydantic_core import from_json
from safetensors import SafetensorError

from eunoe.errors import Damaged, InputError, RunFailed, first_line
from eunoe.text import printable

# The largest text file, or line of JSON Lines, that is read: parsed, it takes less than 2 GB.
MOST_TEXT = 1 << 26
# The largest number of a record: differences of larger ones are infinite.
LARGEST = 1e300
# The suffix of a file that `replacing` is writing, with the process id.
PARTIAL_SUFFIX = r"\.\d+\.part"


def open_regular(path: Path, mode: str = "rb") -> BufferedRandom:
    """Open a regular file in a binary mode; raise `Damaged` for a folder, a FIFO or a device.

    Nothing is written through a link, which may lead out of a run folder.
    """
    try:
        return cast(BufferedRandom, open(path, mode, opener=_open_regular))
    except ValueError as error:
        # A null character in the path.
        raise FileNotFoundError(errno.ENOENT, str(error), str(path)) from None


def _open_regular(path: str, flags: int) -> int:
    # Opening a FIFO must not wait for its other end.
    flags |= getattr(os, "O_NONBLOCK", 0)
    if flags & (os.O_WRONLY | os.O_RDWR):
        flags |= getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o666)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise Damaged(f"{path} is {_describe(mode)}")
    return descriptor


def _describe(mode: int) -> str:
    return f"a {'folder' if stat.S_ISDIR(mode) else 'FIFO or device'}, not a file"


def check_regular(path: Path) -> None:
    """Raise `Damaged` if a library that opens a path by itself would open something else than a file."""
    open_regular(path).close()


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Create a folder and its parents, unless it exists."""
    with writing(path):
        path.mkdir(mode, parents=True, exist_ok=True)


def refuse_links(*folders: Path) -> None:
    """Raise `Damaged` if a folder below a run folder is a link, which may lead out of it."""
    for folder in folders:
        if folder.is_symlink():
            raise Damaged(f"{folder} is a link, through which nothing is written: replace it with a folder")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an error while writing a file to RunFailed with the path."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        # Safetensors wraps the system's error.
        raise RunFailed(f"cannot write {path}: {error}; fix this and try again") from error


def check_replaceable(path: Path) -> None:
    """Raise `Damaged` if a path exists and is no regular file; root could even replace a device."""
    if path.exists() and not path.is_file():
        raise Damaged(f"cannot write {path}: it is {_describe(path.stat().st_mode)}")


@contextmanager
def replacing(path: Path, sync: bool = True) -> Iterator[Path]:
    """Yield a temporary path that replaces the file once it is completely written."""
    # A worker that briefly outlives a killed run may write the same file as the resumed run.
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    with writing(path):
        check_replaceable(path)
        try:
            # Otherwise a link under this name would be followed.
            partial.unlink(missing_ok=True)
            yield partial
            if sync:
                sync_to_disk(partial)
            partial.replace(path)
            if sync:
                sync_to_disk(path.parent)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def sync_to_disk(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    if sys.platform == "win32":
        # Windows syncs neither folders nor files that are open for reading.
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def remove(path: Path, *folders: Path) -> None:
    """Remove a regular file, unless one of these folders is a link; ignore anything else."""
    with writing(path), suppress(FileNotFoundError, NotADirectoryError):
        if stat.S_ISREG(path.lstat().st_mode) and not any(folder.is_symlink() for folder in folders):
            path.unlink()


def partial_files(folder: Path) -> list[Path]:
    """Return files that a killed process was writing."""
    return [path for path in folder.glob("*.part") if re.search(f"{PARTIAL_SUFFIX}$", path.name)]


def write_text(path: Path, text: str) -> None:
    """Write a whole file."""
    with replacing(path) as partial:
        partial.write_text(text, "utf-8")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Convert a system error while reading a file to RunFailed with the path."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, MemoryError) as error:
        raise RunFailed(f"cannot read {path}: {first_line(error)}; fix this and try again") from error


def read_text(path: Path) -> str:
    """Return the text of a file; raise FileNotFoundError if it does not exist."""
    with reading(path), open_regular(path) as file:
        content = file.read(MOST_TEXT + 1)
    if len(content) > MOST_TEXT:
        raise Damaged(f"{path} has more than {MOST_TEXT} bytes, too many for a text file")
    return _decode(content, path)


def _decode(content: bytes, what: object) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Damaged(f"{what} is not text in UTF-8 (byte {error.start})") from None


def parse_json(text: str, what: object) -> Any:
    """Parse JSON; `what` names it in errors."""
    try:
        return json.loads(text)
    # Deep nesting exceeds the stack, numbers of thousands of digits the limit of int().
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{what} is not JSON ({first_line(error)}); restore it") from None


def _printable(value: Any) -> Any:
    """Escape characters of a JSON value that must not be printed."""
    if isinstance(value, dict):
        return {printable(key): _printable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_printable(inner) for inner in value]
    return printable(value) if isinstance(value, str) else value


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; empty if there is no file."""
    try:
        text = read_text(path)
    except FileNotFoundError:
        return {}
    value = parse_json(text, path)
    if not isinstance(value, dict):
        raise Damaged(f"{path} is not a JSON object; restore it")
    return value if text.isascii() and "\\" not in text else _printable(value)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the values of a TOML file; raise FileNotFoundError if it does not exist."""
    return parse_toml(read_text(path), path)


def parse_toml(text: str, what: object) -> dict[str, Any]:
    """Parse TOML; `what` names it in errors."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{what} is not valid TOML: {first_line(error)}") from None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file, without an incomplete last line; empty if there is no file."""
    return list(each_line(path))


def each_line(path: Path, tail: int | None = None) -> Iterator[dict[str, Any]]:
    """Iterate over the objects of a JSON Lines file of any length, or of so many bytes at its end."""
    if not path.exists():
        return
    with reading(path), open_regular(path) as file:
        number = 0
        if tail is not None and (size := os.fstat(file.fileno()).st_size) > tail:
            file.seek(size - tail)
            # It is incomplete.
            file.readline()
        while content := file.readline(MOST_TEXT):
            number += 1
            if content.strip() and (record := _record(content, f"line {number} of {path}")) is not None:
                yield record


def _record(content: bytes, what: str) -> dict[str, Any] | None:
    """Return the object of a line; None if the line is incomplete."""
    if len(content) == MOST_TEXT:
        raise Damaged(f"{what} has {MOST_TEXT} bytes or more, too many for a record")
    try:
        # Three times as fast as the standard library, which is used for its error messages.
        record = from_json(content)
    except ValueError:
        try:
            record = parse_json(_decode(content, what), what)
        except Damaged:
            if not content.endswith(b"\n"):
                return None
            raise
    if not isinstance(record, dict):
        raise Damaged(f"{what} is not a JSON object; restore it")
    if (schema := record.get("schema", 1)) != 1:
        raise InputError(f"{what} has schema {schema!r}; this version of eunoe reads schema 1")
    return record if content.isascii() and b"\\" not in content else _printable(record)


def plain(value: Any) -> Any:
    """Convert a value for JSON: arrays to lists, numbers that no record may have to null."""
    kind = type(value)
    # Most values are these.
    if kind is float:
        return value if -LARGEST <= value <= LARGEST else None
    if kind is int or kind is str:
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not -LARGEST <= value <= LARGEST else value


def lock_file(path: Path, wait: bool = False) -> FileLock:
    """Lock a file until `release`; raise TimeoutError if another process has it and `wait` is false.

    Processes that are forked later do not hold the lock: they may outlive a killed run.
    """
    if path.exists():
        check_regular(path)
    lock = FileLock(path, timeout=-1 if wait else 0, thread_local=False)
    lock.acquire()
    return lock
