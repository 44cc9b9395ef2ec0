"""FedACG (Kim, Kim and Han, 2024, "Communication-Efficient Federated Learning with Accelerated Client
Gradient", https://arxiv.org/abs/2201.03172).

    server:  sends s = w + lambda m                       m starts at 0
    client:  from y = s, minimize F_k(y) + beta/2 ||y - s||^2
    server:  m <- lambda m + mean of (y_k - s) ;  w <- w + m, which is the mean of the y_k

    lambda   momentum   how much of the server's momentum a round keeps, and how far clients start ahead
    beta     beta       strength of the pull toward the received model

Clients start where the momentum is about to carry the model, so it costs them nothing and they keep nothing.
The model that is evaluated is w, not the one that is sent. The authors' code has the momentum in
normalization statistics too; here it is in parameters alone, and statistics are plain means. It also
leaves out the half of the pull: its strength of 0.001 is beta = 0.002 here. The authors clip gradients at
norm 10 (training.clip).
"""

import torch
from pydantic import Field
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights
from eunoe.methods.base import Merged, Method, Neutral
from eunoe.methods.client_context import ClientContext
from eunoe.methods.context import RoundContext
from eunoe.server.aggregate import Aggregate, Weighting
from eunoe.server.cost import Cost


class FedACG(Method):
    """FedACG: clients start ahead, where the server's momentum is about to carry the model."""

    weighting: Weighting = Field(
        "uniform", description="Whether a client counts by its number of samples or all count alike."
    )
    momentum: float = Field(
        0.85, ge=0, lt=1, description="Momentum of the server, and how far ahead along it clients start."
    )
    beta: float = Field(
        0.002, ge=0, allow_inf_nan=False, description="Strength of the pull toward the received model."
    )

    cost = Cost(client_compute="O(model) a step", server_extra="m, w")
    takes_server_optimizer = False
    neutral = Neutral({"momentum": 0.0, "beta": 0.0})

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        zeros = torch.zeros_like(weights.parameters, dtype=torch.float64)
        return {"momentum": zeros, "model": weights.parameters.clone()}

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        return gradient.add_(client.weights - client.start.parameters, alpha=self.beta)

    def merge(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> Merged:
        sent, change = aggregate.start.parameters, aggregate.mean("change")
        momentum = self.momentum * server["momentum"] + change
        model = sent.double() + change
        ahead = (model + self.momentum * momentum).to(sent.dtype)
        state = {"momentum": momentum, "model": model.to(sent.dtype)}
        return Merged(aggregate.with_mean_buffers(ahead), state)

    def reported(self, server: Vectors, weights: Weights) -> Weights:
        return Weights(server["model"], weights.float_buffers, weights.int_buffers)
