"""All that is needed to train any client of a run and to evaluate any model, wherever that happens."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eunoe.core.flat_model import FlatModel
from eunoe.data.federation import Federation
from eunoe.data.transforms import Augment
from eunoe.losses.base import Loss
from eunoe.methods.base import Method
from eunoe.methods.context import RoundContext


@dataclass(frozen=True)
class Simulation:
    """A run without its course: data, model, loss, method and settings."""

    federation: Federation
    model: FlatModel
    loss: Loss
    method: Method
    augment: Augment
    context: RoundContext
    evaluation_chunk: int = 500

    def augmented(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """A training batch with its random changes; crops have black borders, as is usual."""
        return self.augment(x, generator, self.federation.preprocess.black)

    def loss_counts(self, client: int) -> Tensor:
        """The class counts that the loss is told of a client."""
        counts = self.federation.counts(client)
        if self.context.training.label_counts == "train":
            return counts
        return counts + self.federation.counts(client, "validation")

    def context_in(self, round: int) -> RoundContext:
        """The setting as it stands in a round."""
        return replace(self.context, round=round, lr=self.context.training.lr_in(round))
