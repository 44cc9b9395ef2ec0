"""FedExP (Jhunjhunwala et al., 2023, "FedExP: Speeding Up Federated Averaging via Extrapolation").
https://arxiv.org/abs/2301.09604

    w <- w + lr * eta * D
    eta = max(1, mean of ||y_k - w||^2 / (2 (||mean of y_k - w||^2 + epsilon)))

    D         the averaged update
    epsilon   epsilon   keeps eta small where the averaged update is

With identical updates the quotient is 1/2 and eta is 1; with M orthogonal updates of equal norm it is M / 2.
Departures: both means are weighted as the method weights clients, as in the authors' code; the paper's
formula is for equal weights. That code also multiplies epsilon by the number of clients and lets it decay
with the learning rate. Where a method scales updates (FedNova), eta is that of the scaled updates. The paper
evaluates the mean of the last two models; here it is the last. The paper has no lr: leave it at 1.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from eunoe.config.options import Finite
from eunoe.server import Aggregate, Cost, ServerOptimizer, Vectors


class FedExP(ServerOptimizer):
    """Extrapolation at the server (FedExP): the step grows as the clients' updates disagree."""

    epsilon: Finite = Field(1e-3, ge=0, description="Added to the squared norm of the averaged update.")

    cost = Cost(server_extra="a norm for each client")
    neutral: ClassVar[Mapping[str, Any] | None] = {"epsilon": 1e30}

    def derived(self) -> dict[str, Callable[[Tensor], Tensor]]:
        return {**super().derived(), "squared_norm": _squared_norm}

    def apply(
        self, parameters: Tensor, pseudo_gradient: Tensor, server: Vectors, aggregate: Aggregate
    ) -> Tensor:
        # The minimum only avoids a division by 0 in a round without any change.
        together = (_squared_norm(aggregate.mean("change")) + self.epsilon).clamp(min=1e-300)
        eta = (aggregate.mean("squared_norm") / (2 * together)).clamp(min=1.0)
        return super().apply(parameters, eta * pseudo_gradient, server, aggregate)


def _squared_norm(change: Tensor) -> Tensor:
    return change.square().sum()
