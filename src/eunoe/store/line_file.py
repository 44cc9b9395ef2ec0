"""A JSON Lines file that grows by a round at a time, and what a checkpoint says of it."""

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
    """How far a file had been written, and the SHA-256 of all up to there."""

    bytes: int
    lines: int
    sha256: str


class LineFile:
    """A file of lines; its digest is computed as it grows, so that a checkpoint reads nothing."""

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
        """Make the file durable and say how far it goes."""
        if self._bytes:
            with writing(self.path):
                sync_to_disk(self.path)
        return {"bytes": self._bytes, "lines": self._lines, "sha256": self._hash.hexdigest()}

    def check(self, mark: Mark) -> None:
        """Refuse a file that does not begin as the mark says."""
        self._verified(mark)

    def cut_back(self, mark: Mark | None) -> None:
        """Remove what was written after the mark, or all; the file must begin as the mark says."""
        self._begin()
        if mark is not None:
            self._bytes, self._lines, self._hash = self._verified(mark)
        if self.path.exists() and self.path.stat().st_size > self._bytes:
            with writing(self.path):
                os.truncate(self.path, self._bytes)

    def last(self) -> dict[str, Any]:
        """The last complete record; empty if there is none."""
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

    def _verified(self, mark: Mark) -> Beginning:
        """The file up to the mark, if it is what was written."""
        found = Beginning(0, 0, hashlib.sha256())
        if self.path.exists():
            with reading(self.path), open(self.path, "rb") as file:
                found = read_beginning(file, mark["bytes"])
        if found.bytes < mark["bytes"]:
            raise Damaged(f"{self.path} has {found.bytes} bytes and had {mark['bytes']}")
        if found.lines != mark["lines"]:
            raise Damaged(f"{self.path} had {mark['lines']} lines where it has {found.lines}")
        if found.sha256.hexdigest() != mark["sha256"]:
            raise Damaged(f"{self.path} is not what was written")
        return found
