"""FedExP (Jhunjhunwala et al., 2023, "FedExP: Speeding Up Federated Averaging via Extrapolation",
https://arxiv.org/abs/2301.09604): the server goes further along the averaged update the less clients agree.

    w <- w + lr * eta * D
    eta = max(1, mean of ||y_k - w||^2 / (2 (||mean of y_k - w||^2 + epsilon)))

    epsilon   epsilon   keeps eta small where the averaged update is

With all clients alike the quotient is 1/2 and eta is 1; with M updates at right angles and of one length it
is M / 2. Both means are weighted as the method weights clients, as in the authors' code; the formula of the
paper is for equal weights. That code multiplies epsilon by the number of clients and lowers it as their rate
decays, which the formula does not. A method that scales what clients send before it is averaged
(FedNova) has eta from the scaled updates. The paper evaluates the mean of the last two models, since single
ones may oscillate; here the last one is evaluated, as with every server optimizer, and evaluation.last
averages over rounds. lr is no part of the paper: leave it at 1.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from eunoe.core.flat_model import Vectors
from eunoe.server.aggregate import Aggregate
from eunoe.server.cost import Cost
from eunoe.server.optimizers import ServerOptimizer


class FedExP(ServerOptimizer):
    """Extrapolation at the server (FedExP): go the further the less the clients' changes agree."""

    epsilon: float = Field(
        1e-3, ge=0, allow_inf_nan=False, description="Added to the squared norm of the averaged change."
    )

    cost = Cost(server_extra="a norm for each client")
    neutral: ClassVar[Mapping[str, Any] | None] = {"epsilon": 1e30}

    def derived(self) -> dict[str, Callable[[Tensor], Tensor]]:
        return {**super().derived(), "squared_norm": _squared_norm}

    def apply(
        self, parameters: Tensor, pseudo_gradient: Tensor, server: Vectors, aggregate: Aggregate
    ) -> Tensor:
        # The least number keeps a round in which nothing changed from dividing by 0.
        together = (_squared_norm(aggregate.mean("change")) + self.epsilon).clamp(min=1e-300)
        eta = (aggregate.mean("squared_norm") / (2 * together)).clamp(min=1.0)
        return super().apply(parameters, eta * pseudo_gradient, server, aggregate)


def _squared_norm(change: Tensor) -> Tensor:
    return change.square().sum()
