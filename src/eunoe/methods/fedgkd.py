"""FedGKD (Yao et al., 2021, "Local-Global Knowledge Distillation in Heterogeneous Federated Learning with
Non-IID Data").
https://arxiv.org/abs/2107.00051

    loss = L(z, y) + gamma/2 tau^2 KL( softmax(zh / tau) || softmax(z / tau) )

    L       the chosen loss (cross-entropy in the paper)
    z, zh   logits of the client and of the teacher: the mean of the last M global models, which is frozen
    gamma   gamma         weight of the distillation (0.2 in the authors' published commands)
    M       models        number of global models, with the one that is sent (5)
    tau     temperature   temperature of both softmaxes (1)

As in the authors' code, the first round is without distillation, and the initial model is never part of the
teacher. Its running statistics are means too. The variant FedGKD-VOTE, with M teachers that are weighted by
their validation loss, is not implemented.
"""

import torch
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Finite
from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.tasks import CLASSES
from eunoe.losses.distillation import divergence
from eunoe.methods import Batch, ClientContext, Cost, Method, Neutral, RoundContext, ServerUpdate
from eunoe.server.aggregate import Aggregate


class FedGKD(Method):
    """FedGKD: distillation of the mean of the last global models."""

    gamma: Finite = Field(0.2, ge=0, description="Weight of the distillation.")
    models: int = Field(5, ge=1, le=1000, description="Number of global models in the teacher.")
    temperature: Finite = Field(1.0, ge=1e-6, le=1e6, description="Temperature of the distillation.")

    cost = Cost("0", "1", "2", "+ 1 forward a step (a round if un-augmented)", "M models")
    # The mean of global models has no private part.
    takes_private = False
    tasks = CLASSES
    neutral = Neutral({"gamma": 0.0})

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        return {name: getattr(weights, name).new_zeros(0, len(getattr(weights, name))) for name in _PARTS}

    def broadcast(self, server: Vectors, context: RoundContext) -> Vectors:
        if not len(server["parameters"]):
            return {}
        return {name: server[name].double().mean(0).to(server[name].dtype) for name in _PARTS}

    def begin(self, client: ClientContext) -> None:
        if client.shared:
            parts = {name: client.shared[name] for name in _PARTS}
            client.freeze("teacher", Weights(**parts, int_buffers=client.start.int_buffers))

    def loss(self, client: ClientContext, batch: Batch) -> Tensor:
        logits = client.forward(batch.x)
        plain = client.criterion(logits, batch.y)
        if not client.networks:
            return plain
        distance = divergence(client.frozen("teacher", batch), logits, self.temperature)
        return plain + self.gamma / 2 * self.temperature**2 * distance

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        update = super().aggregate(server, aggregate, context)
        for name in _PARTS:
            newest = getattr(update.weights, name)[None]
            update.server[name] = torch.cat([server[name], newest])[-self.models :]
        return update


_PARTS = ("parameters", "float_buffers")
