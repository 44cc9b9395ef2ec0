"""Client states between rounds, on disk: one immutable file per client and round.

A state becomes current only if the server accepts the update that came with it; the checkpoint holds, for
each client, the round of its current state. Files that no checkpoint needs are removed.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from eunoe.system.files import replacing


class ClientStates:
    """The states of all clients of a run."""

    def __init__(self, folder: Path, device: torch.device | None = None) -> None:
        self.folder, self.device = folder, device or torch.device("cpu")
        self.accepted: dict[int, int] = {}
        # Files that a newer state replaced, with the round in which that happened.
        self._replaced: list[tuple[int, Path]] = []

    def load(self, client: int, round: int | None = None) -> dict[str, Tensor]:
        """The current state of a client (or that of a round); empty if it has none."""
        round = self.accepted.get(client) if round is None else round
        return (
            {}
            if round is None
            else {name: value.to(self.device) for name, value in load_file(self.path(client, round)).items()}
        )

    def save(self, client: int, round: int, state: Mapping[str, Tensor]) -> None:
        """Write a client's state after a round; it is not current yet."""
        if not state:
            return
        path = self.path(client, round)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, sync=False) as partial:
            save_file({name: value.cpu().contiguous() for name, value in state.items()}, partial)

    def accept(self, client: int, round: int) -> None:
        """Make the state of this round current, if the client wrote one."""
        # Called for every client of a round, so it uses the cheapest system call.
        if not os.path.exists(self._name(client, round)):
            return
        if client in self.accepted:
            self._replaced.append((round, self.path(client, self.accepted[client])))
        self.accepted[client] = round

    def discard(self, client: int, round: int) -> None:
        """Discard a state whose update was refused."""
        self.path(client, round).unlink(missing_ok=True)

    def prune(self, oldest_kept: int) -> None:
        """Remove states that were replaced up to the round of the oldest kept checkpoint."""
        for round, path in self._replaced:
            if round <= oldest_kept:
                path.unlink(missing_ok=True)
        self._replaced = [entry for entry in self._replaced if entry[0] > oldest_kept]

    def remove_strays(self, wanted: set[Path]) -> None:
        """Remove files that no checkpoint refers to, left by an interrupted run."""
        for path in self.folder.glob("*/*"):
            if path not in wanted:
                path.unlink(missing_ok=True)

    def path(self, client: int, round: int) -> Path:
        return Path(self._name(client, round))

    def _name(self, client: int, round: int) -> str:
        # A folder holds at most a thousand clients, so that none grows without bound.
        return f"{self.folder}/{client // 1000}/{client}-{round}.safetensors"
