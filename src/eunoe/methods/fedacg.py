"""FedACG (Kim et al., 2024, "Communication-Efficient Federated Learning with Accelerated Client Gradient").
https://arxiv.org/abs/2201.03172

    server:  sends s = w + lambda m                       m starts at 0
    client:  from y = s, minimize F_k(y) + beta/2 ||y - s||^2
    server:  m <- lambda m + mean of (y_k - s) ;  w <- w + m, which is the mean of the y_k

    lambda   momentum   momentum of the server, and the length of the lookahead
    beta     beta       weight of the proximal term

The model that is evaluated is w, not the lookahead model that is sent. A change that clients agree on adds up
to 1 / (1 - lambda) times itself, 6.7 by default, so a learning rate that suits FedAvg may be too large.

Departures: the authors' code also applies the momentum to normalization statistics; here they are plain
means. It has no factor 1/2 in the proximal term, so its weight of 0.001 is beta = 0.002 here. The authors
clip gradients at norm 10 (training.clip = 10).
"""

import torch
from pydantic import Field
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.optimizer import add_scaled
from eunoe.methods import ClientContext, Cost, Method, Neutral, RoundContext, ServerUpdate
from eunoe.server.aggregate import Aggregate, Weighting


class FedACG(Method):
    """FedACG: clients start from a lookahead along the server's momentum."""

    weighting: Weighting = "uniform"
    momentum: float = Field(0.85, ge=0, lt=1, description="Server momentum and length of the lookahead.")
    beta: float = Field(0.002, ge=0, allow_inf_nan=False, description="Weight of the proximal term.")

    cost = Cost(client_compute="O(model) a step", server_extra="m, w")
    elementwise = True
    takes_server_optimizer = False
    neutral = Neutral({"momentum": 0.0, "beta": 0.0})

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        zeros = torch.zeros_like(weights.parameters, dtype=torch.float64)
        return {"momentum": zeros, "model": weights.parameters.clone()}

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        return add_scaled(gradient, client.weights - client.start.parameters, self.beta)

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        sent, change = aggregate.start.parameters, aggregate.mean("change")
        momentum = self.momentum * server["momentum"] + change
        model = sent.double() + change
        lookahead = (model + self.momentum * momentum).to(sent.dtype)
        state = {"momentum": momentum, "model": model.to(sent.dtype)}
        return ServerUpdate(aggregate.with_mean_buffers(lookahead), state)

    def reported(self, server: Vectors, weights: Weights) -> Weights:
        return Weights(server["model"], weights.float_buffers, weights.int_buffers)
