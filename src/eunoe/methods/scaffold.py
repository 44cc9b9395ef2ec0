"""SCAFFOLD (Karimireddy et al., 2020, "Stochastic Controlled Averaging for Federated Learning").

    client:  y <- y - lr (g_k(y) - c_k + c)                     c and all c_k start at 0
             option I:   c_k+ = gradient of F_k at w
             option II:  c_k+ = c_k - c + (w - y) / (lr K)      K steps
    server:  w <- w + lr_server * mean of (y_k - w)
             c <- c + 1/N * sum over the round of (c_k+ - c_k)

    I, II       option            how a client's control is found
    lr_server   server_step.lr    rate of the server
    N           all clients of the federation, not those of the round

Weight decay belongs to g_k. With momentum a change adds up more than K gradients, so option II divides by
their true weight ||a|| (see FedNova) instead of K; the paper has no momentum. Clipping and adam break
option II and are refused there. Option I passes over the un-augmented data once, in evaluation mode.
"""

from typing import TYPE_CHECKING, Literal

import torch
from pydantic import Field
from torch import Tensor

from eunoe.core.flat_model import Weights
from eunoe.errors import InputError
from eunoe.methods.base import Cost, Finished, Merged, Method, Neutral, Upload, Vectors
from eunoe.methods.fednova import accumulated

if TYPE_CHECKING:
    from eunoe.methods.client_context import Local
    from eunoe.methods.context import Setting
    from eunoe.training.aggregation import Sums


class Scaffold(Method):
    """SCAFFOLD: control variates take out of each step what sets a client apart from the others."""

    weighting: Literal["samples", "uniform"] = Field(
        "uniform", description="Whether a client counts by its number of samples or all count alike."
    )
    option: Literal["I", "II"] = Field(
        "II", description="A client's control: its gradient at the received model, or the mean of its steps."
    )

    cost = Cost("1", "2", "2", "O(model) a step (I: + 1 pass forward and back)", "c")
    neutral = Neutral(rounds=1)

    def check(self, setting: "Setting") -> list[str]:
        training = setting.training
        if self.option == "II" and (training.clip is not None or training.optimiser != "sgd"):
            raise InputError(
                "scaffold's option II reads gradients off the steps: leave out training.clip and take "
                "optimiser 'sgd', or set method.option = 'I'"
            )
        if not training.momentum:
            return []
        return ["scaffold is made for training.momentum = 0; momentum makes its corrections less stable"]

    def start(self, weights: Weights, setting: "Setting") -> Vectors:
        return {"control": torch.zeros_like(weights.parameters, dtype=torch.float64)}

    def broadcast(self, server: Vectors, setting: "Setting") -> Vectors:
        return {"control": server["control"].to(setting.dtype)}

    def client_state(self, setting: "Setting") -> dict[str, int]:
        return {"control": setting.parameters}

    def uploads(self, setting: "Setting") -> dict[str, Upload]:
        return {"control_change": Upload("sum", setting.parameters)}

    def begin(self, local: "Local") -> None:
        local.cache["correction"] = local.shared["control"] - local.own["control"]
        if self.option == "I":
            local.cache["control"] = self._gradient_of_all(local)

    def correct(self, local: "Local", gradient: Tensor) -> Tensor:
        return gradient.add_(local.cache["correction"])

    def finish(self, local: "Local") -> Finished:
        if self.option == "I":
            control = local.cache["control"]
        else:
            gradients = local.lr * accumulated(local.steps, local.training.momentum)
            control = (local.start.parameters - local.weights) / gradients - local.cache["correction"]
        return Finished({"control_change": control - local.own["control"]}, {"control": control})

    def merge(self, server: Vectors, sums: "Sums", setting: "Setting") -> Merged:
        merged = super().merge(server, sums, setting)
        merged.server["control"] = server["control"] + sums.sum("control_change") / setting.clients
        return merged

    def _gradient_of_all(self, local: "Local") -> Tensor:
        local.model.gradient.zero_()
        with local.model.evaluating():
            for rows in torch.split(torch.arange(local.size), 500):
                x, y = local.data(rows)
                local.backwards += len(y)
                loss = local.criterion(local.forward(x), y).sum() / local.size
                loss.backward()  # type: ignore[no-untyped-call]
        return local.decayed(local.model.gradient).clone()
