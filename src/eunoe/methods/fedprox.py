"""FedProx (Li et al., 2020, "Federated Optimization in Heterogeneous Networks").

    client:  minimise F_k(y) + mu/2 ||y - w||^2, so the gradient gets + mu (y - w)
    server:  as FedAvg

    mu   mu   strength of the pull towards the received model

No strength serves everywhere; the paper tunes it in {0.001, 0.01, 0.1, 1}. The term is added to the
gradient, before momentum, which is what differentiating the loss would give; the loss that is reported
does not have it. The paper samples clients by size and averages uniformly; here they are sampled
uniformly and averaged by size.
"""

from typing import TYPE_CHECKING

from pydantic import Field
from torch import Tensor

from eunoe.methods.base import Cost, Method, Neutral

if TYPE_CHECKING:
    from eunoe.methods.client_context import Local
    from eunoe.methods.context import Setting


class FedProx(Method):
    """FedProx: clients are held near the model they received."""

    mu: float = Field(
        0.01, ge=0, allow_inf_nan=False, description="Strength of the pull towards the received model."
    )

    cost = Cost(client_compute="O(model) a step")
    neutral = Neutral({"mu": 0.0})

    def check(self, setting: "Setting") -> list[str]:
        rate = setting.training.lr * self.mu
        if rate < 2:
            return []
        return [f"fedprox: lr * mu = {rate:g} overshoots (it must stay below 2); lower mu or training.lr"]

    def correct(self, local: "Local", gradient: Tensor) -> Tensor:
        return gradient.add_(local.weights - local.start.parameters, alpha=self.mu)
