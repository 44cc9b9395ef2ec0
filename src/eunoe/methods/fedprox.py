"""FedProx (Li et al., 2020, "Federated Optimization in Heterogeneous Networks").
https://arxiv.org/abs/1812.06127

    client:  minimize F_k(y) + mu/2 ||y - w||^2, so the gradient gets + mu (y - w)
    server:  as FedAvg

    mu   mu   weight of the proximal term; the paper tunes it in {0.001, 0.01, 0.1, 1}

Departures: the term is added to the gradient, before momentum, which is what differentiating the loss would
give; the reported loss does not include it. The paper samples clients by size and averages uniformly; here
they are sampled uniformly and averaged by size.
"""

from pydantic import Field
from torch import Tensor

from eunoe.core.optimizer import add_scaled
from eunoe.methods import ClientContext, Cost, Method, Neutral, RoundContext


class FedProx(Method):
    """FedProx: a proximal term keeps clients near the global model."""

    mu: float = Field(0.01, ge=0, allow_inf_nan=False, description="Weight of the proximal term.")

    cost = Cost(client_compute="O(model) a step")
    elementwise = True
    neutral = Neutral({"mu": 0.0})

    def check(self, context: RoundContext) -> list[str]:
        rate = context.training.lr * self.mu
        if rate < 2:
            return []
        return [f"fedprox: lr * mu = {rate:g} overshoots (it must stay below 2); lower mu or training.lr"]

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        return add_scaled(gradient, client.weights - client.start.parameters, self.mu)
