"""A JSON Lines file that grows with every round, and its mark in a checkpoint."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from eunoe.errors import Damaged
from eunoe.system.files import Beginning, parse_json, plain, read_beginning, reading, sync_to_disk, writing

# Bytes from the end of a file that are read first for its last line.
_BLOCK = 1 << 12


class Mark(TypedDict):
    """The length of a file, and the SHA-256 of its content, at the time of a checkpoint."""

    bytes: int
    lines: int
    sha256: str


class LineFile:
    """A JSON Lines file whose digest is updated as it grows, so that a checkpoint need not read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append a line for each record."""
        if not records:
            return
        text = "".join(json.dumps(plain(record), allow_nan=False) + "\n" for record in records).encode()
        with writing(self.path), open(self.path, "ab") as file:
            file.write(text)
        self._add(text)

    def sync(self) -> Mark:
        """Flush the file to disk and return its mark."""
        if self._bytes:
            with writing(self.path):
                sync_to_disk(self.path)
        return {"bytes": self._bytes, "lines": self._lines, "sha256": self._hash.hexdigest()}

    def truncate(self, mark: Mark | None) -> None:
        """Remove what was written after the mark, or everything; the file must match the mark."""
        self._begin()
        if mark is not None:
            self._bytes, self._lines, self._hash = self.verify(mark)
        if self.path.exists() and self.path.stat().st_size > self._bytes:
            with writing(self.path):
                os.truncate(self.path, self._bytes)

    def last(self) -> dict[str, Any]:
        """Return the last complete record; empty if there is none."""
        if not self.path.exists():
            return {}
        with reading(self.path), open(self.path, "rb") as file:
            start = end = file.seek(0, os.SEEK_END)
            content = b""
            # Until the newline before the last line, or the beginning of the file.
            while start and content.count(b"\n") < 2:
                start = max(0, start - max(_BLOCK, len(content)))
                file.seek(start)
                content = file.read(end - start)
        lines = content.split(b"\n")
        return parse_json(lines[-2].decode(), self.path) if len(lines) > 1 else {}

    def _begin(self) -> None:
        self._bytes, self._lines, self._hash = 0, 0, hashlib.sha256()

    def _add(self, content: bytes) -> None:
        self._hash.update(content)
        self._bytes += len(content)
        self._lines += content.count(b"\n")

    def verify(self, mark: Mark) -> Beginning:
        """Return the file up to the mark; raise `Damaged` if it does not match the mark."""
        content = Beginning(0, 0, hashlib.sha256())
        if self.path.exists():
            with reading(self.path), open(self.path, "rb") as file:
                content = read_beginning(file, mark["bytes"])
        if content.bytes < mark["bytes"]:
            raise Damaged(f"{self.path} has {content.bytes} bytes instead of {mark['bytes']}")
        if content.lines != mark["lines"]:
            raise Damaged(f"{self.path} has {content.lines} lines instead of {mark['lines']}")
        if content.sha256.hexdigest() != mark["sha256"]:
            raise Damaged(f"{self.path} changed since it was written (SHA-256 mismatch)")
        return content
