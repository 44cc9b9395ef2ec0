"""GradMA (Luo et al., 2023, "GradMA: A Gradient-Memory-based Accelerated Federated Learning with Alleviated
Catastrophic Forgetting").
https://arxiv.org/abs/2302.14307

With P(g, A) the vector nearest to g among all v with <v, a> >= 0 for each a in A,

    client:  y <- y - lr P( g(y), { g(y'), g(w), y - w } )          y' is y before the last step
    server:  G_k <- beta2 G_k, for a client of the round + w - y_k  ;  d = mean of w - y_k
             m <- P( beta1 m + d, { G_k } )  ;  w <- w - lr_server m              m starts at 0

    g           gradient of the client's batch, at three points
    G           the memory: at most `memory` clients; one that took part in fewest rounds makes room
    beta1       beta1                 momentum of the server (0.9 in the authors' code)
    beta2       beta2                 decay of the memory (0 there: only the round's clients count)
    lr_server   server_optimizer.lr   learning rate of the server
    GradMA-W    server = false        clients only
    GradMA-S    worker = false        server only

A change that clients agree on adds up to 1 / (1 - beta1) times itself, so a learning rate that suits FedAvg
may be too large. Departures: vectors are projected as a whole, as printed; the authors' code projects each
parameter tensor by itself. Weight decay is part of g(y) only. Momentum and clipping see the projected vector.
As in fedsam.py, batch normalization updates its statistics in the pass at y only. Clients are weighted by
samples.
"""

import torch
from pydantic import Field
from scipy.optimize import nnls
from torch import Tensor

from eunoe.config.options import Finite, Steps
from eunoe.core.flat_model import Vectors, Weights
from eunoe.errors import InputError
from eunoe.methods import Batch, ClientContext, Cost, Method, Neutral, RoundContext
from eunoe.methods.fedsam import frozen_statistics
from eunoe.server.aggregate import Aggregate


class GradMA(Method):
    """GradMA: steps of clients and server are projected so that they do not undo what a memory holds."""

    worker: bool = Field(True, description="Project the steps of clients.")
    server: bool = Field(True, description="Project the update of the server, with momentum.")
    beta1: Finite = Field(0.9, ge=0, lt=1, description="Momentum of the server.")
    beta2: Finite = Field(0.0, ge=0, le=1, description="Factor on the memory of the server per round.")
    memory: Steps = Field(100, ge=1, description="Clients in the memory of the server.")

    cost = Cost(client_compute="+ 2 passes forward and back a step", server_extra="m, G")
    keeps_models = True
    # A quadratic program for each client and step.
    vectorizes = False
    neutral = Neutral({"worker": False, "server": False})

    def check(self, context: RoundContext) -> list[str]:
        if self.server and self.memory < context.participants:
            raise InputError(f"method.memory must hold a round's clients: set it to {context.participants}")
        return []

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        if not self.server:
            return {}
        empty = torch.zeros(0, dtype=torch.int64)
        zeros = torch.zeros_like(weights.parameters, dtype=torch.float64)
        return {"momentum": zeros, "memory": zeros.new_zeros(0, len(zeros)), "clients": empty, "times": empty}

    def step(self, client: ClientContext, batch: Batch) -> None:
        if not self.worker:
            super().step(client, batch)
            return
        loss = client.loss_at(batch.x, batch.y)
        here, start = client.weights.clone(), client.start.parameters
        before = client.moments.get("before", start)
        gradient = client.decayed(client.gradient_at(here, loss, batch))
        loss_here = client.last_loss
        with frozen_statistics(client.model.module):
            others = [client.gradient_at(at, loss, batch) for at in (before, start)]
        client.last_loss, client.moments["before"] = loss_here, here
        client.descend(project(gradient, torch.stack([*others, here - start])))

    def pseudo_gradient(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> Tensor:
        change = aggregate.mean("change")
        if not self.server:
            return change
        self._remember(server, aggregate)
        server["momentum"] = project(self.beta1 * server["momentum"] - change, server["memory"])
        return -server["momentum"]

    def _remember(self, server: Vectors, aggregate: Aggregate) -> None:
        """Add a round to the memory of the server."""
        rows = zip(*(server[name].tolist() for name in ("clients", "times")), server["memory"], strict=True)
        memory = {client: (times, self.beta2 * row) for client, times, row in rows}
        start = aggregate.start.parameters.double()
        for client, model in zip(aggregate.clients, aggregate.models, strict=True):
            times, row = memory.get(client, (0, torch.zeros_like(start)))
            memory[client] = times + 1, row + start - model.parameters.double()
        present = set(aggregate.clients)
        absent = sorted((times, client) for client, (times, _) in memory.items() if client not in present)
        for _, client in absent[: max(0, len(memory) - self.memory)]:
            del memory[client]
        server["memory"] = torch.stack([row for _, row in memory.values()])
        server["clients"] = torch.tensor(list(memory))
        server["times"] = torch.tensor([times for times, _ in memory.values()])


def project(vector: Tensor, memory: Tensor) -> Tensor:
    """Return the nearest vector whose products with the rows of a memory are not negative."""
    if not (torch.isfinite(vector).all() and torch.isfinite(memory).all()):
        return vector
    # Only the part of the vector in the span of the rows counts, which leaves a problem of their number.
    base, rows = torch.linalg.qr(memory.T)
    multipliers, _ = nnls(rows.cpu().numpy(), -(base.T @ vector).cpu().numpy())
    return vector + torch.from_numpy(multipliers).to(memory) @ memory
