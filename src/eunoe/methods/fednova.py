"""FedNova (Wang et al., 2020, "Tackling the Objective Inconsistency Problem in Heterogeneous Federated
Optimization").

A client's change is a weighted sum of its gradients, w - y_k = lr * sum_i a_i g_i. Clients that took more
steps are divided by what they summed up, and the mean is stretched to the mean length again:

    d_k = (y_k - w) / ||a_k||        w <- w + (sum_k p_k ||a_k||) * sum_k p_k d_k

    ||a_k|| of K steps     plain          K
                           momentum rho   (K - rho (1 - rho^K) / (1 - rho)) / (1 - rho)
                           prox mu        (1 - (1 - lr mu)^K) / (lr mu)

    mu    mu                   strength of the proximal term of the local objective (0: none)
    rho   training.momentum    momentum of the clients

There is no form for momentum and prox together, nor for adam. The authors' code stretches by the mean
number of steps where mu > 0; here it is the mean of ||a_k||, as in the paper. Their slow momentum is
server optimizer momentum.
"""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from eunoe.core.flat_model import Vectors
from eunoe.errors import InputError
from eunoe.methods.base import Finished, Method, Neutral
from eunoe.methods.client_context import ClientContext
from eunoe.methods.context import RoundContext
from eunoe.server.aggregate import Aggregate, Upload
from eunoe.server.cost import Cost


def accumulated(steps: int, momentum: float = 0.0, shrink: float = 0.0) -> float:
    """The sum of the weights that gradients have in a client's change, for momentum or for shrink = lr mu."""
    if shrink:
        return (1 - (1 - shrink) ** steps) / shrink
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


class FedNova(Method):
    """FedNova: a client's change is divided by the amount of work it did."""

    mu: float = Field(0.0, ge=0, allow_inf_nan=False, description="Strength of FedProx's term; 0 is none.")

    cost = Cost(up="1 + 1 number", client_compute="0 (prox: O(model) a step)")
    # Where all clients take the same number of steps.
    neutral = Neutral(tolerance=1e-6)

    def check(self, context: RoundContext) -> list[str]:
        training = context.training
        if training.optimizer != "sgd":
            raise InputError("fednova knows what sgd adds up, not adam: set training.optimizer to 'sgd'")
        if self.mu and training.momentum:
            raise InputError("fednova goes with momentum or with mu, not with both: set one of them to 0")
        shrink = training.lr * self.mu
        if shrink >= 2:
            raise InputError(
                f"fednova: lr * mu = {shrink:g} would let a client's gradients add up to nothing or less: "
                "lower method.mu or training.lr until it is below 1"
            )
        return [f"fednova: lr * mu = {shrink:g} overshoots; lower mu or training.lr"] if shrink >= 1 else []

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        return {"work": Upload(self.weighting, 1)}

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        if not self.mu:
            return gradient
        return gradient.add_(client.weights - client.start.parameters, alpha=self.mu)

    def finish(self, client: ClientContext) -> Finished:
        work = accumulated(client.steps, client.training.momentum, client.lr * self.mu)
        return Finished({"work": torch.full((1,), work, dtype=client.weights.dtype)})

    def contribution(self, change: Tensor, uploads: Mapping[str, Tensor]) -> Tensor:
        return change / uploads["work"].double()

    def pseudo_gradient(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> Tensor:
        return aggregate.mean("work") * aggregate.mean("change")
