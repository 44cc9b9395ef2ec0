"""What travels between the server and its clients in a round."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from eunoe.core.flat_model import Vectors, Weights


@dataclass(frozen=True)
class Broadcast:
    """What the server sends to every client of a round."""

    round: int
    weights: Weights
    shared: Vectors = field(default_factory=dict)

    def to(self, device: torch.device) -> "Broadcast":
        """Return the broadcast on a device; no copy if it is there."""
        shared = {name: value.to(device) for name, value in self.shared.items()}
        return Broadcast(self.round, self.weights.to(device), shared)


@dataclass
class Update:
    """What a client sends back, on the CPU. `loss_before` and `loss_after` are of its first batch."""

    client: int
    size: int
    weights: Weights
    uploads: Vectors
    steps: int = 0
    loss_before: float = float("nan")
    loss_after: float = float("nan")
    forwards: int = 0
    backwards: int = 0
    skipped: str | None = None
    # The compressed form of vectors, by name, as a network would carry them.
    packed: dict[str, Vectors] = field(default_factory=dict)


def drop_vectors(update: Update) -> Update:
    """Remove an update's vectors, which are too large to keep for a thousand clients; counters stay."""
    empty = torch.empty(0)
    update.weights, update.uploads = Weights(empty, empty, update.weights.int_buffers), {}
    return update


class Limits(NamedTuple):
    """What is known about a client before it trains.

    `size` is its number of samples, `steps` the most steps that these allow, and `labels` the number of
    samples in its label counts if that differs from `size`.
    """

    size: int
    steps: int
    labels: int | None = None
