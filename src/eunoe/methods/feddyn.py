"""FedDyn (Acar et al., 2021, "Federated Learning Based on Dynamic Regularization").

    client:  minimise F_k(y) - <g_k, y> + alpha/2 ||y - w||^2 ; then g_k <- g_k - alpha (y_k - w)
    server:  h <- h - alpha/N * sum over the round of (y_k - w) ; w <- mean of y_k - h / alpha

    alpha   alpha    strength of the regulariser
    N       all clients of the federation, not those of the round

Kept here, as in the authors' code, are the sums of moves q_k = -g_k / alpha and their mean over all
clients q = -h / alpha; then alpha may differ by client: it is divided by n_k / mean(n), so that all
objectives weigh alike. The iterates are the same:

    gradient + alpha_k (y - w + q_k)       q_k <- q_k + y_k - w       w <- mean of y_k + q

The model that is evaluated is the plain mean of the round's client models, not the one that is sent. The
authors clip gradients at norm 10; without clipping training may diverge. Here all of the gradient above is
clipped; their code adds alpha y afterwards, as weight decay.
"""

from typing import TYPE_CHECKING, Literal

import torch
from pydantic import Field
from torch import Tensor

from eunoe.core.flat_model import Weights
from eunoe.methods.base import Cost, Finished, Merged, Method, Vectors

if TYPE_CHECKING:
    from eunoe.methods.client_context import Local
    from eunoe.methods.context import Setting
    from eunoe.training.aggregation import Sums


class FedDyn(Method):
    """FedDyn: each client's objective is bent so that its minimum becomes the common one."""

    weighting: Literal["uniform"] = Field("uniform", description="All clients count alike.")
    alpha: float = Field(
        0.01,
        gt=0,
        allow_inf_nan=False,
        description="Strength of the regulariser; 0.1, 0.01 and 0.001 are usual.",
    )

    cost = Cost("1", "1", "1", "O(model) a step", "h")
    takes_server_step = False

    def check(self, setting: "Setting") -> list[str]:
        if setting.training.clip is not None:
            return []
        return ["feddyn may diverge without clipping; its authors set training.clip = 10"]

    def start(self, weights: Weights, setting: "Setting") -> Vectors:
        zeros = torch.zeros_like(weights.parameters, dtype=torch.float64)
        return {"moves": zeros, "mean": weights.parameters.clone()}

    def client_state(self, setting: "Setting") -> dict[str, int]:
        return {"moves": setting.parameters}

    def begin(self, local: "Local") -> None:
        alpha = self.alpha * local.setting.mean_size / local.size
        local.cache["alpha"] = torch.tensor(alpha, dtype=local.weights.dtype, device=local.weights.device)
        local.cache["centre"] = local.start.parameters - local.own["moves"]

    def correct(self, local: "Local", gradient: Tensor) -> Tensor:
        return torch.addcmul(gradient, local.weights - local.cache["centre"], local.cache["alpha"])

    def finish(self, local: "Local") -> Finished:
        return Finished(state={"moves": local.weights - local.cache["centre"]})

    def merge(self, server: Vectors, sums: "Sums", setting: "Setting") -> Merged:
        change = sums.mean("change")
        moves = server["moves"] + change * (len(sums.clients) / setting.clients)
        mean = sums.start.parameters.double() + change
        dtype = sums.start.parameters.dtype
        weights = sums.with_mean_buffers((mean + moves).to(dtype))
        return Merged(weights, {"moves": moves, "mean": mean.to(dtype)})

    def reported(self, server: Vectors, weights: Weights) -> Weights:
        return Weights(server["mean"], weights.floats, weights.integers)
