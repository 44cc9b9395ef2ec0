"""FedNova (Wang et al., 2020, "Tackling the Objective Inconsistency Problem in Heterogeneous Federated
Optimization").
https://arxiv.org/abs/2007.07481

A client's update is a weighted sum of its gradients, w - y_k = lr * sum_i a_i g_i. Each update is normalized
by the sum of its weights, and the mean is scaled back to the mean length:

    d_k = (y_k - w) / ||a_k||        w <- w + (sum_k p_k ||a_k||) * sum_k p_k d_k

    ||a_k|| of K steps     plain          K
                           momentum rho   (K - rho (1 - rho^K) / (1 - rho)) / (1 - rho)
                           prox mu        (1 - (1 - lr mu)^K) / (lr mu)

    mu    mu                   weight of the proximal term of the local objective (0: none)
    rho   training.momentum    momentum of the clients

There is no form for momentum and prox together, nor for adam. Departures: where mu > 0 the authors' code
scales by the mean number of steps; here it is the mean of ||a_k||, as in the paper. Their slow momentum is
server optimizer `momentum`.
"""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from eunoe.core.flat_model import Vectors
from eunoe.core.optimizer import add_scaled
from eunoe.errors import InputError
from eunoe.methods import ClientContext, Cost, Finished, Method, Neutral, RoundContext
from eunoe.server.aggregate import Aggregate, Upload


def sum_weights(steps: int, momentum: float = 0.0, shrink: float = 0.0) -> float:
    """Return ||a||, the total weight of K gradients in an update, with momentum or with shrink = lr mu."""
    if shrink:
        return (1 - (1 - shrink) ** steps) / shrink
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


class FedNova(Method):
    """FedNova: updates are normalized by the amount of local work before averaging."""

    mu: float = Field(0.0, ge=0, allow_inf_nan=False, description="Weight of FedProx's term; 0: none.")

    cost = Cost(up="1 + 1 number", client_compute="0 (prox: O(model) a step)")
    elementwise = True
    # Where all clients take the same number of steps.
    neutral = Neutral(tolerance=1e-6)

    def check(self, context: RoundContext) -> list[str]:
        training = context.training
        if training.optimizer != "sgd":
            raise InputError("fednova requires training.optimizer = 'sgd'")
        if self.mu and training.momentum:
            raise InputError("fednova cannot combine training.momentum with method.mu: set one of them to 0")
        shrink = training.lr * self.mu
        if shrink >= 2:
            raise InputError(f"fednova: lr * mu = {shrink:g} must be below 2: lower method.mu or training.lr")
        return [f"fednova: lr * mu = {shrink:g} overshoots; lower mu or training.lr"] if shrink >= 1 else []

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        # One step is work 1; if lr mu overshoots, the second step takes back a part of the first.
        lowest = min(1.0, 2 - context.lr * self.mu)
        highest = 1 / (1 - context.training.momentum)
        return {"work": Upload(self.weighting, 1, lowest=lowest, highest=highest, per="step")}

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        if not self.mu:
            return gradient
        return add_scaled(gradient, client.weights - client.start.parameters, self.mu)

    def finish(self, client: ClientContext) -> Finished:
        work = sum_weights(client.steps, client.training.momentum, client.lr * self.mu)
        return Finished({"work": torch.full((1,), work, dtype=client.weights.dtype)})

    def contribution(self, change: Tensor, uploads: Mapping[str, Tensor]) -> Tensor:
        return change / uploads["work"].double()

    def pseudo_gradient(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> Tensor:
        return aggregate.mean("work") * aggregate.mean("change")
