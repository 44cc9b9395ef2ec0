"""FedCM (Xu et al., 2021, "FedCM: Federated Learning with Client-level Momentum",
https://arxiv.org/abs/2106.10874).

    client:  y <- y - lr (alpha g_k(y) + (1 - alpha) d)          d starts at 0
    server:  w <- w + lr_server * mean of (y_k - w)
             d <- mean of (w - y_k) / (lr K)                     K steps

    alpha       alpha                 share of a client's own gradient in its step
    lr_server   server_optimizer.lr   rate of the server; in the paper's terms eta_g / (lr K)

Every step of every client has the last round's mean step d in it, which is a moving mean over all rounds, so
steps of one round differ by a share of alpha only. Weight decay belongs to g_k. Where clients take unequal
numbers of steps, K is their mean, weighted as the changes are; with momentum, which the paper does not have,
the true weight ||a|| of what adds up takes its place (see FedNova). Adam is refused, since its change does
not tell the mean step. The first round has no d, so its steps are alpha times as long.
"""

import torch
from pydantic import Field
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights
from eunoe.errors import InputError
from eunoe.methods.base import Finished, Merged, Method, Neutral
from eunoe.methods.client_context import ClientContext
from eunoe.methods.context import RoundContext
from eunoe.methods.fednova import accumulated
from eunoe.server.aggregate import Aggregate, Upload, Weighting
from eunoe.server.cost import Cost


class FedCM(Method):
    """FedCM: each step of a client goes mostly the way that all clients went in the last round."""

    weighting: Weighting = Field(
        "uniform", description="Whether a client counts by its number of samples or all count alike."
    )
    alpha: float = Field(0.1, gt=0, le=1, description="Share of a client's own gradient in its step.")

    cost = Cost("0", "1 + 1 number", "2", "O(model) a step", "d")
    neutral = Neutral({"alpha": 1.0})

    def check(self, context: RoundContext) -> list[str]:
        if context.training.optimizer != "sgd":
            raise InputError("fedcm knows what sgd adds up, not adam: set training.optimizer to 'sgd'")
        return []

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        return {"step": torch.zeros_like(weights.parameters, dtype=torch.float64)}

    def broadcast(self, server: Vectors, context: RoundContext) -> Vectors:
        return {"step": server["step"].to(context.dtype)}

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        return {"work": Upload(self.weighting, 1)}

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        return gradient.mul_(self.alpha).add_(client.shared["step"], alpha=1 - self.alpha)

    def finish(self, client: ClientContext) -> Finished:
        work = accumulated(client.steps, client.training.momentum)
        return Finished({"work": torch.full((1,), work, dtype=client.weights.dtype)})

    def merge(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> Merged:
        merged = super().merge(server, aggregate, context)
        merged.server["step"] = -aggregate.mean("change") / (context.lr * aggregate.mean("work"))
        return merged
