"""SCAFFOLD (Karimireddy et al., 2020, "Stochastic Controlled Averaging for Federated Learning").
https://arxiv.org/abs/1910.06378

    client:  y <- y - lr (g_k(y) - c_k + c)                     c and all c_k start at 0
             option I:   c_k+ = gradient of F_k at w
             option II:  c_k+ = c_k - c + (w - y) / (lr K)      K steps
    server:  w <- w + lr_server * mean of (y_k - w)
             c <- c + 1/N * sum over the round of (c_k+ - c_k)

    I, II       option                 how a client's control variate is computed
    lr_server   server_optimizer.lr    learning rate of the server
    N           all clients of the federation, not those of the round

Departures: weight decay is part of g_k. With momentum an update adds up more than K gradients, so option II
divides by their total weight ||a|| (see FedNova) instead of K; the paper has no momentum. Clipping and adam
break option II and are refused there. An aggregation other than the mean replaces both means: c moves by
|S| / N times the aggregated change of the control variates. Option I passes over the un-augmented data
once, in evaluation mode.

Where class mixes differ much and local training is long, SCAFFOLD may diverge: c - c_k is the same in all K
steps and pushes the client by up to lr K ||c - c_k||. A smaller lr or fewer steps help.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights
from eunoe.errors import InputError
from eunoe.methods import ClientContext, Cost, Finished, Method, Neutral, RoundContext, ServerUpdate
from eunoe.methods.fednova import sum_weights
from eunoe.server.aggregate import Aggregate, Upload, Weighting


class Scaffold(Method):
    """SCAFFOLD: control variates correct each local step for client drift."""

    weighting: Weighting = "uniform"
    option: Literal["I", "II"] = Field("II", description="Control variates from gradients (I) or steps (II).")

    cost = Cost("1", "2", "2", "O(model) a step (I: + 1 pass forward and back)", "c")
    elementwise = True
    neutral = Neutral(rounds=1)

    def check(self, context: RoundContext) -> list[str]:
        training = context.training
        if self.option == "II" and (training.clip is not None or training.optimizer != "sgd"):
            raise InputError("scaffold's option II requires sgd without clip: set method.option = 'I'")
        warning = "scaffold assumes training.momentum = 0; with momentum its corrections are less stable"
        return [warning] if training.momentum else []

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        return {"control": torch.zeros_like(weights.parameters, dtype=torch.float64)}

    def broadcast(self, server: Vectors, context: RoundContext) -> Vectors:
        return {"control": server["control"].to(context.model.dtype)}

    def client_state(self, context: RoundContext) -> dict[str, int]:
        return {"control": context.model.parameters}

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        return {"control_change": Upload("sum", context.model.parameters, factor=20.0)}

    def explained_norms(
        self, change: float, steps: int, shared: Mapping[str, Tensor], context: RoundContext
    ) -> dict[str, float]:
        # Option II: c_k+ - c_k = (w - y) / (lr K) - c; twice that leaves room for rounding and option I.
        gradients = context.lr * sum_weights(max(steps, 1), context.training.momentum)
        control = float(shared["control"].norm()) if "control" in shared else 0.0
        return {"control_change": 2 * (change / gradients + control)}

    def begin(self, client: ClientContext) -> None:
        client.cache["correction"] = client.shared["control"] - client.state["control"]
        if self.option == "I":
            client.cache["control"] = self._gradient_of_all(client)

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        return gradient.add_(client.cache["correction"])

    def finish(self, client: ClientContext) -> Finished:
        if self.option == "I":
            control = client.cache["control"]
        else:
            gradients = client.lr * sum_weights(client.steps, client.training.momentum)
            control = (client.start.parameters - client.weights) / gradients - client.cache["correction"]
        return Finished({"control_change": control - client.state["control"]}, {"control": control})

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        update = super().aggregate(server, aggregate, context)
        update.server["control"] = server["control"] + aggregate.sum("control_change") / context.data.clients
        return update

    def _gradient_of_all(self, client: ClientContext) -> Tensor:
        client.model.gradient.zero_()
        with client.model.evaluating():
            for rows in torch.split(torch.arange(client.size), 500):
                x, y = client.data(rows)
                client.backwards += len(y)
                loss = client.criterion(client.forward(x), y).sum() / client.size
                loss.backward()  # type: ignore[no-untyped-call]
        return client.decayed(client.model.gradient).clone()
