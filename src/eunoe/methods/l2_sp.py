"""L2-SP (Li et al., 2018, "Explicit Inductive Bias for Transfer Learning with Convolutional Networks").
https://arxiv.org/abs/1802.01483

    client:  minimize F_k(y) + weight / 2 ||y - w_0||^2, so the gradient gets + weight (y - w_0)
    server:  as FedAvg, and sends w_0, the model before round 1

    alpha   weight

Departures: the paper is not federated, and has a second weight for parameters that are new in fine-tuning;
here all have one. The factor of y - w_0 is at most 1 / lr.
"""

import torch
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Finite
from eunoe.methods import ClientContext, Cost, Method, Neutral, RoundContext, Vectors, Weights


class L2SP(Method):
    """L2-SP: a penalty on the distance from the start model, to forget less of what it knew."""

    weight: Finite = Field(0.01, ge=0, description="Weight of the penalty.")

    cost = Cost(down="2", client_compute="O(model) a step", server_extra="start model")
    elementwise = True
    neutral = Neutral({"weight": 0.0})

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        return {"start": weights.parameters.clone()}

    def broadcast(self, server: Vectors, context: RoundContext) -> Vectors:
        return {name: server[name] for name in ("start", "fisher") if name in server}

    def begin(self, client: ClientContext) -> None:
        start = client.shared["start"]
        client.cache["start"] = start
        stiffness = self.weight * client.shared.get("fisher", torch.ones_like(start))
        # A step that is longer than the distance would overshoot the start.
        client.cache["stiffness"] = stiffness.clamp(max=1 / client.lr)

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        return torch.addcmul(gradient, client.cache["stiffness"], client.weights - client.cache["start"])
