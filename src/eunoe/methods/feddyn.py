"""FedDyn (Acar et al., 2021, "Federated Learning Based on Dynamic Regularization").
https://arxiv.org/abs/2111.04263

    client:  minimize F_k(y) - <g_k, y> + alpha/2 ||y - w||^2 ; then g_k <- g_k - alpha (y_k - w)
    server:  h <- h - alpha/N * sum over the round of (y_k - w) ; w <- mean of y_k - h / alpha

    alpha   alpha    weight of the regularizer
    N       all clients of the federation, not those of the round

As in the authors' code, what is kept are the summed updates q_k = -g_k / alpha and their mean over all
clients q = -h / alpha; then alpha may differ by client: it is divided by n_k / mean(n), so that all
objectives have equal weight. The iterates are the same:

    gradient + alpha_k (y - w + q_k)       q_k <- q_k + y_k - w       w <- mean of y_k + q

The model that is evaluated is the mean of the round's client models, not the one that is sent. The authors
clip gradients at norm 10, without which training may diverge. Departure: here the whole gradient above is
clipped; their code adds alpha y afterwards, as weight decay.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Finite
from eunoe.core.flat_model import Vectors, Weights
from eunoe.methods import ClientContext, Cost, Finished, Method, RoundContext, ServerUpdate
from eunoe.server.aggregate import Aggregate


class FedDyn(Method):
    """FedDyn: a dynamic regularizer aligns each client's minimum with the global one."""

    weighting: Literal["uniform"] = Field("uniform", description="All clients have equal weight.")
    alpha: Finite = Field(0.01, gt=0, description="Weight of the regularizer; often 0.1, 0.01 or 0.001.")

    cost = Cost("1", "1", "1", "O(model) a step", "h")
    elementwise = True
    takes_server_optimizer = False
    needs_mean_size = True

    def check(self, context: RoundContext) -> list[str]:
        if context.training.clip is not None:
            return []
        return ["feddyn may diverge without clipping; its authors set training.clip = 10"]

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        zeros = torch.zeros_like(weights.parameters, dtype=torch.float64)
        return {"moves": zeros, "mean": weights.parameters.clone()}

    def client_state(self, context: RoundContext) -> dict[str, int]:
        return {"moves": context.model.parameters}

    def begin(self, client: ClientContext) -> None:
        alpha = self.alpha * client.context.data.mean_size / client.size
        client.cache["alpha"] = torch.tensor(alpha, dtype=client.weights.dtype, device=client.weights.device)
        client.cache["center"] = client.start.parameters - client.state["moves"]

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        return torch.addcmul(gradient, client.weights - client.cache["center"], client.cache["alpha"])

    def finish(self, client: ClientContext) -> Finished:
        return Finished(state={"moves": client.weights - client.cache["center"]})

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        change = aggregate.mean("change")
        moves = server["moves"] + change * (aggregate.count / context.data.clients)
        mean = aggregate.start.parameters.double() + change
        dtype = aggregate.start.parameters.dtype
        weights = aggregate.with_mean_buffers((mean + moves).to(dtype))
        return ServerUpdate(weights, {"moves": moves, "mean": mean.to(dtype)})

    def reported(self, server: Vectors, weights: Weights) -> Weights:
        return Weights(server["mean"], weights.float_buffers, weights.int_buffers)
