"""Server optimizers: what the server does with the averaged update D of a round.

D, the pseudo-gradient, is the mean of y_k - w, or what the method makes of it.

    sgd       w <- w + lr * D
    momentum  m <- beta m + D                            w <- w + lr * m
    adagrad   v <- v + D^2
    adam      v <- b2 v + (1 - b2) D^2                   m <- b1 m + (1 - b1) D
    yogi      v <- v - (1 - b2) D^2 sign(v - D^2)        w <- w + lr * m / (sqrt(v) + tau)

momentum is FedAvgM (Hsu et al., 2019, "Measuring the Effects of Non-Identical Data Distribution for Federated
Visual Classification", https://arxiv.org/abs/1909.06335). The adaptive three are of Reddi et al. (2020,
"Adaptive Federated Optimization", https://arxiv.org/abs/2003.00295) in the form of the paper: no bias
correction, and v starts at tau^2; adagrad has no momentum (b1 = 0) by default. The code released with that
paper corrects the bias and starts at 0: `bias_correction = true`, `v0 = 0`. Only trainable parameters are
updated this way; normalization statistics are always the plain mean.

Any of them may be masked (Tenison et al., 2022, "Gradient Masked Averaging for Federated Learning",
https://arxiv.org/abs/2201.11986): with p_k the clients' weights, the agreement on a coordinate is
A = |sum_k p_k sign(y_k - w)|, and where A < gma the update is multiplied by A. A change of exactly 0 counts
as disagreement.

fedexp (Jhunjhunwala et al., 2023, "FedExP: Speeding Up Federated Averaging via Extrapolation",
https://arxiv.org/abs/2301.09604) extrapolates, with `epsilon` to keep eta small where D is:

    w <- w + lr * eta * D        eta = max(1, mean of ||y_k - w||^2 / (2 (||D||^2 + epsilon)))

With identical updates the quotient is 1/2 and eta is 1; with M orthogonal updates of equal norm it is M / 2.
Departures: both means are weighted as the method weights clients, as in the authors' code; the paper's
formula is for equal weights. That code also multiplies epsilon by the number of clients and lets it decay
with the learning rate. Where a method scales updates (FedNova), eta is that of the scaled updates. The paper
evaluates the mean of the last two models; here it is the last. The paper has no lr: leave it at 1.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Finite, Options
from eunoe.core.flat_model import Vectors
from eunoe.errors import InputError
from eunoe.server.aggregate import Aggregate


class Cost(NamedTuple):
    """What a method costs a client and a round compared with FedAvg, in multiples of the model."""

    client_state: str = "0"
    up: str = "1"
    down: str = "1"
    client_compute: str = "0"
    server_extra: str = "0"


class ServerOptimizer(Options):
    """Base of the server optimizers: a learning rate, a mask, and state that the checkpoint carries."""

    lr: float = Field(1.0, gt=0, allow_inf_nan=False, description="The server's learning rate.")
    gma: float | None = Field(None, ge=0, le=1, description="Damp coordinates with agreement below this.")

    cost: ClassVar[Cost] = Cost(server_extra="0 (gma: sign sums)")
    # Options at which it is the plain average.
    neutral: ClassVar[Mapping[str, Any] | None] = None

    def check(self) -> list[str]:
        """Raise InputError for what cannot work; return warnings of what may go wrong."""
        return []

    def derived(self) -> dict[str, Callable[[Tensor], Tensor]]:
        """Return functions of each client's update whose means are needed besides."""
        return {} if self.gma is None else {"signs": torch.sign}

    def start(self, parameters: Tensor) -> Vectors:
        """Return the state before the first round."""
        return {}

    def apply(
        self, parameters: Tensor, pseudo_gradient: Tensor, server: Vectors, aggregate: Aggregate
    ) -> Tensor:
        """New parameters from the old and the pseudo-gradient (float64); updates its state in `server`."""
        if self.gma is not None:
            agreement = aggregate.mean("signs").abs()
            pseudo_gradient = pseudo_gradient * torch.where(agreement >= self.gma, 1.0, agreement)
        return (parameters.double() + self.lr * self.move(pseudo_gradient, server)).to(parameters.dtype)

    def move(self, pseudo_gradient: Tensor, server: Vectors) -> Tensor:
        """Return the pseudo-gradient as this optimizer follows it; override this."""
        return pseudo_gradient


class SGD(ServerOptimizer):
    """SGD at the server: w + lr D; the plain average at lr = 1."""

    neutral: ClassVar[Mapping[str, Any] | None] = {"gma": 0.0}


class Momentum(ServerOptimizer):
    """Momentum at the server (FedAvgM): m <- beta m + D, without dampening."""

    beta: float = Field(0.9, ge=0, lt=1, description="How much of the momentum a round keeps.")

    cost = Cost(server_extra="m")
    neutral: ClassVar[Mapping[str, Any] | None] = {"beta": 0.0}

    def start(self, parameters: Tensor) -> Vectors:
        return {"momentum": torch.zeros_like(parameters, dtype=torch.float64)}

    def move(self, pseudo_gradient: Tensor, server: Vectors) -> Tensor:
        server["momentum"] = self.beta * server["momentum"] + pseudo_gradient
        return server["momentum"]


class Adaptive(ServerOptimizer):
    """Base of the adaptive ones, which scale each coordinate by its own second moment."""

    # The best server rates in the paper lie between 10^-2.5 and 1, by task.
    lr: float = Field(0.1, gt=0, allow_inf_nan=False, description="The server's learning rate.")
    b1: float = Field(0.9, ge=0, lt=1, description="How much of the momentum a round keeps.")
    tau: float = Field(1e-3, ge=0, allow_inf_nan=False, description="Added to the root of v.")
    v0: float | None = Field(None, ge=0, description="Where v starts; by default at tau squared.")

    cost = Cost(server_extra="m, v")

    def check(self) -> list[str]:
        if not self.tau:
            raise InputError("server_optimizer.tau = 0 may divide by 0: set it, for example to 1e-3")
        if self.tau >= 1e-5:
            return []
        return [f"tau = {self.tau:g} lets coordinates that hardly change move by the full learning rate"]

    def start(self, parameters: Tensor) -> Vectors:
        zeros = torch.zeros_like(parameters, dtype=torch.float64)
        v0 = self.tau**2 if self.v0 is None else self.v0
        return {"momentum": zeros, "squares": zeros + v0, "steps": torch.zeros(1, dtype=torch.float64)}

    def move(self, pseudo_gradient: Tensor, server: Vectors) -> Tensor:
        server["steps"] = server["steps"] + 1
        server["momentum"] = self.b1 * server["momentum"] + (1 - self.b1) * pseudo_gradient
        server["squares"] = self.squares(server["squares"], pseudo_gradient**2)
        return self.factor(server["steps"]) * server["momentum"] / (server["squares"].sqrt() + self.tau)

    def squares(self, before: Tensor, square: Tensor) -> Tensor:
        """Return the new v."""
        return before + square

    def factor(self, steps: Tensor) -> Tensor:
        """Return what the update is multiplied by in a round."""
        return torch.ones_like(steps)


class Adagrad(Adaptive):
    """Adagrad at the server (FedAdagrad): v adds up the squares of all rounds."""

    b1: float = Field(0.0, ge=0, lt=1, description="How much of the momentum a round keeps.")


class Adam(Adaptive):
    """Adam at the server (FedAdam): v is a moving average of squares."""

    b2: float = Field(0.99, ge=0, lt=1, description="How much of v a round keeps.")
    bias_correction: bool = Field(False, description="Multiply by sqrt(1 - b2^t) / (1 - b1^t).")

    def squares(self, before: Tensor, square: Tensor) -> Tensor:
        return self.b2 * before + (1 - self.b2) * square

    def factor(self, steps: Tensor) -> Tensor:
        if not self.bias_correction:
            return torch.ones_like(steps)
        return (1 - self.b2**steps).sqrt() / (1 - self.b1**steps)


class Yogi(Adam):
    """Yogi at the server (FedYogi): v moves toward the square by a bounded amount."""

    def squares(self, before: Tensor, square: Tensor) -> Tensor:
        return before - (1 - self.b2) * square * torch.sign(before - square)


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
