"""What an engine needs to train any client of a run and to evaluate any model."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from eunoe.config.attack import Attack
from eunoe.config.averaging_options import Averaging
from eunoe.config.compression_options import Compression
from eunoe.config.data_options import Augment
from eunoe.config.replay_options import Replay
from eunoe.core.batches import most_steps
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
    """What is known of a client before it trains: its samples, and the most steps that these allow."""

    size: int
    steps: int


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
    # Under secure aggregation: how updates are summed, and how many clients must stay to the end of a round.
    fixed_point: FixedPoint | None = None
    threshold: int = 0

    def augmented(self, x: Input, generator: torch.Generator) -> Input:
        """A training batch with its random changes; crops have black borders, as is usual."""
        return augment_batch(x, self.augment, generator, self.federation.preprocess.black)

    def loss_counts(self, client: int) -> Tensor:
        """A client's class counts as the loss sees them: with its kept samples, which it trains on too."""
        counts = self.federation.counts(client)
        if isinstance(self.federation, FederationInRound) and client in self.federation.remembered:
            labels = self.federation.data.train.y[torch.from_numpy(self.federation.remembered[client])]
            counts = counts + torch.bincount(labels, minlength=self.federation.classes)
        if self.context.training.label_counts == "train":
            return counts
        return counts + self.federation.counts(client, "validation")

    def limits(self, client: int) -> Limits:
        """What a client's update is held to."""
        size = self.federation.size(client)
        memory = 0 if self.replay is None else self.replay.memory
        return Limits(size, most_steps(size + memory, self.context.training))

    def in_round(self, round: int) -> "Simulation":
        """The simulation with the federation as it is in a round."""
        federation = in_round(self.federation, round, self.replay is not None)
        return self if federation is self.federation else replace(self, federation=federation)

    def context_in(self, round: int) -> RoundContext:
        """The context of a round."""
        return replace(self.context, round=round, lr=self.context.training.lr_in(round))
