"""FedCM (Xu et al., 2021, "FedCM: Federated Learning with Client-level Momentum").
https://arxiv.org/abs/2106.10874

    client:  y <- y - lr (alpha g_k(y) + (1 - alpha) d)          d starts at 0
    server:  w <- w + lr_server * mean of (y_k - w)
             d <- mean of (w - y_k) / (lr K)                     K steps

    alpha       alpha                 weight of the client's own gradient
    lr_server   server_optimizer.lr   learning rate of the server; the paper's is eta_g = lr_server * lr K

In the first round d is 0, so steps are shorter by alpha. Weight decay is part of g_k. Departures: where
clients take different numbers of steps, K is their mean, weighted as the updates are. With momentum, which
the paper does not have, an update adds up more than K gradients, and K is their total weight ||a|| (see
FedNova). Adam is refused, since the mean step cannot be read off its updates.
"""

import torch
from pydantic import Field
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.optimizer import add_scaled
from eunoe.errors import InputError
from eunoe.methods import ClientContext, Cost, Finished, Method, Neutral, RoundContext, ServerUpdate
from eunoe.methods.fednova import sum_weights
from eunoe.server.aggregate import Aggregate, Upload, Weighting


class FedCM(Method):
    """FedCM: local steps carry the last round's mean step as momentum."""

    weighting: Weighting = "uniform"
    alpha: float = Field(0.1, gt=0, le=1, description="Weight of the client's own gradient in its step.")

    cost = Cost("0", "1 + 1 number", "2", "O(model) a step", "d")
    # A private part would get a part of the gradient and no momentum.
    takes_private = False
    elementwise = True
    neutral = Neutral({"alpha": 1.0})

    def check(self, context: RoundContext) -> list[str]:
        if context.training.optimizer != "sgd":
            raise InputError("fedcm requires training.optimizer = 'sgd'")
        return []

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        return {"step": torch.zeros_like(weights.parameters, dtype=torch.float64)}

    def broadcast(self, server: Vectors, context: RoundContext) -> Vectors:
        return {"step": server["step"].to(context.model.dtype)}

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        highest = 1 / (1 - context.training.momentum)
        return {"work": Upload(self.weighting, 1, lowest=1.0, highest=highest, per="step")}

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        return add_scaled(gradient.mul_(self.alpha), client.shared["step"], 1 - self.alpha)

    def finish(self, client: ClientContext) -> Finished:
        work = sum_weights(client.steps, client.training.momentum)
        return Finished({"work": torch.full((1,), work, dtype=client.weights.dtype)})

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        update = super().aggregate(server, aggregate, context)
        update.server["step"] = -aggregate.mean("change") / (context.lr * aggregate.mean("work"))
        return update
