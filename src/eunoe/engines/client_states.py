"""Client states between rounds, on disk: one immutable file per client and round.

A state becomes current only if the server accepts the update that came with it; the checkpoint holds, for
each client, the round of its current state and the digest of its file. Files that no checkpoint needs are
removed.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from eunoe.errors import Damaged
from eunoe.system import files
from eunoe.system.tensor_files import read_tensors

_NAME = re.compile(rf"\d+-\d+\.safetensors({files.PARTIAL_SUFFIX})?")


class ClientStates:
    """The states of all clients of a run."""

    def __init__(self, folder: Path, device: torch.device | None = None) -> None:
        self.folder, self.device = folder, device or torch.device("cpu")
        self.accepted: dict[int, int] = {}
        # The digests of current states whose bytes are known to be on the disk.
        self.digests: dict[int, bytes] = {}
        # Files that a newer state replaced, with the rounds from and until which they were current.
        self._replaced: list[tuple[int, int, Path]] = []

    def load(self, client: int, round: int | None = None) -> dict[str, Tensor]:
        """Return the current state of a client (or that of a round); empty if it has none."""
        round = self.accepted.get(client) if round is None else round
        if round is None:
            return {}
        tensors, _ = read_tensors(self.path(client, round))
        return {name: value.to(self.device) for name, value in tensors.items()}

    def save(self, client: int, round: int, state: Mapping[str, Tensor]) -> None:
        """Write a client's state after a round; it is not current yet."""
        if not state:
            return
        path = self.path(client, round)
        files.refuse_links(self.folder, path.parent)
        files.make_folder(path.parent)
        # Synchronized with the next checkpoint, if it is accepted.
        with files.replacing(path, sync=False) as partial:
            save_file({name: value.cpu().contiguous() for name, value in state.items()}, partial)

    def accept(self, client: int, round: int) -> None:
        """Make the state of this round current, if the client wrote one."""
        # Called for every client of a round, so it uses the cheapest system call.
        if not os.path.exists(self._name(client, round)):
            return
        if client in self.accepted:
            before = self.accepted[client]
            self._replaced.append((before, round, self.path(client, before)))
        self.accepted[client] = round
        self.digests.pop(client, None)

    def discard(self, client: int, round: int) -> None:
        """Discard a state whose update was refused."""
        self._remove(self.path(client, round))

    def sync(self) -> None:
        """Make current states durable and compute the digests of those that are new."""
        folders = set()
        for client in self.accepted.keys() - self.digests.keys():
            path = self.path(client, self.accepted[client])
            with files.writing(path):
                files.sync_to_disk(path)
                self.digests[client] = _digest(path)
            folders.add(path.parent)
        if folders:
            for folder in (*sorted(folders), self.folder):
                with files.writing(folder):
                    files.sync_to_disk(folder)

    def check(self, accepted: Mapping[int, int], digests: Mapping[int, bytes]) -> None:
        """Raise Damaged if a state changed since a checkpoint was written."""
        for client, round in accepted.items():
            path = self.path(client, round)
            try:
                with files.reading(path):
                    digest = _digest(path)
            except FileNotFoundError:
                raise Damaged(f"the client state {path} is missing") from None
            if digest != digests.get(client):
                raise Damaged(f"{path} changed since it was written (SHA-256 mismatch)")

    def restore(
        self,
        accepted: Mapping[int, int],
        digests: Mapping[int, bytes],
        older: Sequence[Mapping[int, int]] = (),
    ) -> None:
        """Take over the states of a checkpoint; remove files that neither it nor an older one refers to."""
        self.accepted, self.digests = dict(accepted), dict(digests)
        replaced = {
            (round, self.accepted.get(client, round), self.path(client, round))
            for states in older
            for client, round in states.items()
            if self.accepted.get(client) != round
        }
        self._replaced = sorted(replaced)
        wanted = {self.path(*entry) for entry in self.accepted.items()} | {path for *_, path in replaced}
        for path in self._files():
            if path not in wanted:
                self._remove(path)

    def prune(self, kept: Sequence[int]) -> None:
        """Remove replaced states that the checkpoints of no kept round refer to."""
        needed = []
        for entry in self._replaced:
            since, until, path = entry
            if any(since <= round < until for round in kept):
                needed.append(entry)
            else:
                self._remove(path)
        self._replaced = needed

    def remove_older(self, client: int, round: int, start: int | None) -> None:
        """Remove a client's states from before this round, except that of the round it started from."""
        for path in self._files(f"{client // 1000}/{client}-*"):
            if (older := int(path.name.partition("-")[2].partition(".")[0])) < round and older != start:
                self._remove(path)

    def _files(self, pattern: str = "*/*") -> list[Path]:
        """Return the files that look like states, or like states that were not completely written."""
        return [path for path in self.folder.glob(pattern) if _NAME.fullmatch(path.name)]

    def _remove(self, path: Path) -> None:
        files.remove(path, self.folder, path.parent)

    def path(self, client: int, round: int) -> Path:
        return Path(self._name(client, round))

    def _name(self, client: int, round: int) -> str:
        # A folder holds at most a thousand clients, so that none grows without bound.
        return f"{self.folder}/{client // 1000}/{client}-{round}.safetensors"


def _digest(path: Path) -> bytes:
    with files.open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").digest()
