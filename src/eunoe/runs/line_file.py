"""A JSON Lines file that grows by a round at a time, and what a checkpoint says of it."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from eunoe.errors import Damaged
from eunoe.system.files import plain, reading, sync_to_disk, writing


class Mark(TypedDict):
    """How far a file had been written, and the SHA-256 of all up to there."""

    bytes: int
    lines: int
    sha256: str


def mark_of(content: bytes) -> Mark:
    """The mark of a file that ends with this content."""
    return {
        "bytes": len(content),
        "lines": content.count(b"\n"),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


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
        self._read(mark)

    def cut_back(self, mark: Mark | None) -> None:
        """Remove what was written after the mark, or all; the file must begin as the mark says."""
        content = self._read(mark) if mark else b""
        if self.path.exists() and self.path.stat().st_size > len(content):
            with writing(self.path):
                os.truncate(self.path, len(content))
        self._begin()
        self._add(content)

    def _begin(self) -> None:
        self._hash, self._bytes, self._lines = hashlib.sha256(), 0, 0

    def _add(self, content: bytes) -> None:
        self._hash.update(content)
        self._bytes += len(content)
        self._lines += content.count(b"\n")

    def _read(self, mark: Mark) -> bytes:
        """The file up to the mark, verified."""
        content = b""
        if self.path.exists():
            with reading(self.path), open(self.path, "rb") as file:
                content = file.read(mark["bytes"])
        if len(content) < mark["bytes"]:
            raise Damaged(f"{self.path} has {len(content)} bytes and had {mark['bytes']}")
        if (found := mark_of(content))["lines"] != mark["lines"]:
            raise Damaged(f"{self.path} had {mark['lines']} lines where it has {found['lines']}")
        if found != mark:
            raise Damaged(f"{self.path} is not what was written")
        return content
