"""A JSON Lines file that grows with every round, and its mark in a checkpoint."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from eunoe.errors import Damaged
from eunoe.system.files import open_regular, plain, reading, sync_to_disk, writing

# Bytes that are read at a time.
_BLOCK = 1 << 20


class Mark(TypedDict):
    """The length of a file, and the SHA-256 of its content, at the time of a checkpoint."""

    bytes: int
    lines: int
    sha256: str


class LineFile:
    """A JSON Lines file whose digest is updated as it grows, so that a checkpoint need not read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes, self._lines, self._hash = 0, 0, hashlib.sha256()

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Append a line for each record."""
        if not records:
            return
        text = "".join(json.dumps(plain(record), allow_nan=False) + "\n" for record in records).encode()
        with writing(self.path), open_regular(self.path, "ab") as file:
            file.write(text)
        self._add(text)

    def sync(self) -> Mark:
        """Flush the file to disk and return its mark."""
        if self._bytes:
            with writing(self.path):
                sync_to_disk(self.path)
        return self._mark()

    def verify(self, mark: Mark) -> "LineFile":
        """Return the file up to the mark; raise `Damaged` if it does not match the mark."""
        prefix = LineFile(self.path)
        if self.path.exists():
            with reading(self.path), open_regular(self.path) as file:
                # A length below 0 would read the whole file.
                while block := file.read(max(0, min(_BLOCK, mark["bytes"] - prefix._bytes))):
                    prefix._add(block)
        now = prefix._mark()
        for unit in ("bytes", "lines"):
            if now[unit] != mark[unit]:
                raise Damaged(f"{self.path} has {now[unit]} {unit} instead of {mark[unit]}")
        if now != mark:
            raise Damaged(f"{self.path} changed since it was written (SHA-256 mismatch)")
        return prefix

    def truncate(self, mark: Mark | None) -> None:
        """Remove what was written after the mark, or everything; the file must match the mark."""
        prefix = LineFile(self.path) if mark is None else self.verify(mark)
        self._bytes, self._lines, self._hash = prefix._bytes, prefix._lines, prefix._hash
        if self.path.exists() and self.path.stat().st_size > self._bytes:
            with writing(self.path), open_regular(self.path, "r+b") as file:
                file.truncate(self._bytes)

    def _add(self, content: bytes) -> None:
        self._hash.update(content)
        self._bytes += len(content)
        self._lines += content.count(b"\n")

    def _mark(self) -> Mark:
        return {"bytes": self._bytes, "lines": self._lines, "sha256": self._hash.hexdigest()}
