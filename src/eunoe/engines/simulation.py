"""What an engine needs to train any client of a run and to evaluate any model."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from eunoe.config.options import Attack, Augment, Averaging, Compression, Replay
from eunoe.core.batches import max_steps
from eunoe.core.fields import Input
from eunoe.core.flat_model import FlatModel
from eunoe.data.federation import Federation
from eunoe.data.federation_in_round import FederationInRound, in_round
from eunoe.data.transforms import augment_batch
from eunoe.losses.base import Loss
from eunoe.methods.base import Method
from eunoe.methods.context import RoundContext
from eunoe.server.fixed_point import FixedPoint


class Limits(NamedTuple):
    """What is known of a client before it trains: its samples, the most steps that these allow, and how many
    samples its label counts can be of, if they are not those of this round."""

    size: int
    steps: int
    labels: int | None = None


@dataclass(frozen=True)
class Simulation:
    """A run without its state: data, model, loss, method and round context."""

    federation: Federation
    model: FlatModel
    loss: Loss
    method: Method
    augment: Augment
    context: RoundContext
    evaluation_chunk: int = 500
    averaging: Averaging | None = None
    attack: Attack | None = None
    replay: Replay | None = None
    compress: Compression | None = None
    # By how many participations the label counts lag that losses and methods see.
    stale_counts: int = 0
    # Under secure aggregation: how updates are summed, and how many clients must stay to the end of a round.
    fixed_point: FixedPoint | None = None
    threshold: int = 0

    def augmented(self, x: Input, generator: torch.Generator) -> Input:
        """A training batch with its random changes; crops have black borders, as is usual."""
        return augment_batch(x, self.augment, generator, self.federation.preprocess.black)

    def loss_counts(self, client: int) -> Tensor:
        """A client's class counts as the loss sees them: with its kept samples, which it trains on too."""
        federation, label_counts = self.federation, self.context.training.label_counts
        counts = federation.counts(client)
        if isinstance(federation, FederationInRound):
            if client in federation.remembered:
                counts = counts + federation.counts_of(federation.remembered[client])
            if label_counts == "seen" and client in federation.seen:
                counts = torch.maximum(counts, federation.seen[client])
        return counts + federation.counts(client, "validation") * (label_counts == "train_and_validation")

    @property
    def recalls_counts(self) -> bool:
        """Whether clients go by label counts of earlier rounds."""
        return bool(self.stale_counts) or self.context.training.label_counts == "seen"

    @property
    def recalls(self) -> bool:
        """Whether clients keep anything of earlier rounds besides their method's state."""
        return self.replay is not None or self.recalls_counts

    def limits(self, client: int) -> Limits:
        """What a client's update is held to."""
        size = self.federation.size(client)
        memory = 0 if self.replay is None else self.replay.memory
        labels = len(self.federation.data.train.y) if self.stale_counts else None
        return Limits(size, max_steps(size + memory, self.context.training), labels)

    def in_round(self, round: int) -> "Simulation":
        """The simulation with the federation as it is in a round."""
        federation = in_round(self.federation, round, self.recalls)
        return self if federation is self.federation else replace(self, federation=federation)

    def context_in(self, round: int) -> RoundContext:
        """The context of a round."""
        return replace(self.context, round=round, lr=self.context.training.lr_in(round))
