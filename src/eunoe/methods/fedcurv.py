"""FedCurv (Shoham et al., 2019, "Overcoming Forgetting in Federated Learning on Non-IID Data").
https://arxiv.org/abs/1910.07796

    client s:  minimize F_s(y) + lambda * sum over j != s of (y - y_j)^T diag(I_j) (y - y_j)
    I_j, y_j   diagonal Fisher information of client j at its own last model, and that model

The server sends only u = sum of I_j and v = sum of I_j y_j over all clients, and a client subtracts its own
terms: gradient + 2 lambda ((u - I_s) y - (v - I_s y_s)). A client sends the change of its two terms, which
the server adds, so any subset of clients may take part.

    lambda   weight         1 in the paper, which has 96 clients; it is tied to how I is estimated and to N
    I        labels         true labels (empirical Fisher) or labels drawn from the model
             max_samples    samples of a client that I is estimated on
    q        kept           share of the largest entries of I that count; the others are 0 and do not travel
             kept_change    only these entries of the weights change, so that compress.share = kept sends no
                            others (section 3.1)
             memory         u and v of all clients seen so far, or of the last round only
             decay          factor on u and v in every round: what was learned from data that have changed
                            since fades (not in the paper, where data are fixed)

The paper does not say how I is estimated; here it is the mean of squared per-sample gradients of the task's
plain loss, in evaluation mode, whatever loss is trained. Models are averaged uniformly, as in the paper.
"""

import math
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Finite
from eunoe.core.fisher import sum_of_squared_gradients
from eunoe.core.flat_model import Vectors, Weights
from eunoe.errors import InputError
from eunoe.methods import ClientContext, Cost, Finished, Method, Neutral, RoundContext, ServerUpdate
from eunoe.server.aggregate import Aggregate, Upload, Weighting


class FedCurv(Method):
    """FedCurv: an elastic penalty on parameters with high Fisher information at other clients."""

    weighting: Weighting = "uniform"
    weight: Finite = Field(1.0, ge=0, description="Weight of the penalty (lambda in the paper).")
    labels: Literal["true", "sampled"] = Field("true", description="Labels for the Fisher information.")
    max_samples: int | None = Field(None, ge=1, description="Samples to estimate it on; default: all.")
    kept: float = Field(1.0, gt=0, le=1, description="Share of its largest entries that is kept.")
    kept_change: bool = Field(False, description="Send the change of the weights at these entries only.")
    memory: Literal["all", "last_round"] = Field("all", description="Clients that the penalty remembers.")
    decay: float = Field(1.0, gt=0, le=1, description="Factor on what is remembered, in every round.")

    cost = Cost("2", "3 (sparse: 1 + 6 kept)", "3", "O(model) a step, 1 pass of per-sample gradients", "u, v")
    elementwise = True
    # Its two sums belong together, entry by entry, and a median of each would part them.
    takes_aggregation = False
    # A client subtracts its own last uploads from the sums that it receives.
    takes_stale = False
    neutral = Neutral({"weight": 0.0})

    def check(self, context: RoundContext) -> list[str]:
        if self.labels == "sampled" and context.data.task.name != "classification":
            raise InputError("fedcurv can sample labels in classification only: set method.labels = 'true'")
        return []

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        zeros = torch.zeros_like(weights.parameters, dtype=torch.float64)
        return {"u": zeros, "v": zeros.clone(), "round": zeros[:1].clone()}

    def broadcast(self, server: Vectors, context: RoundContext) -> Vectors:
        sent = ("u", "v") if self.memory == "all" else ("u", "v", "round")
        return {name: server[name].to(context.model.dtype) for name in sent}

    def client_state(self, context: RoundContext) -> dict[str, int]:
        return {"fisher": context.model.parameters, "weighted": context.model.parameters, "round": 1}

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        size = context.model.parameters
        # A change touches the entries kept before and those kept now; both terms share their indices.
        entries = math.ceil(self.kept * size) * (2 if self.memory == "all" else 1)
        # Fisher information is that of squared gradients, which differ by orders between clients.
        lowest, factor = (None if self.memory == "all" else 0.0), 1e6
        fisher = Upload("sum", size, lowest=lowest, factor=factor)
        weighted = Upload("sum", size, factor=factor)
        full = {"fisher": fisher, "weighted": weighted}
        sparse = {
            "fisher": fisher._replace(entries=entries),
            "weighted": weighted._replace(entries=entries, indices_of="fisher"),
        }
        return min((full, sparse), key=lambda its: sum(u.bytes_in(context.model.dtype) for u in its.values()))

    def begin(self, client: ClientContext) -> None:
        state, shared = client.state, client.shared
        if self.memory == "all":
            share = self._decay_since(client, client.context.round - 1)
        else:
            share = float(state["round"] == shared["round"])
        others = shared["u"] - state["fisher"] * share
        # Where no other client contributes, rounding may leave a residue of either sign.
        client.cache["pull"] = 2 * self.weight * others.clamp(min=0)
        client.cache["target"] = 2 * self.weight * (shared["v"] - state["weighted"] * share) * (others > 0)

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        return torch.addcmul(gradient, client.cache["pull"], client.weights).sub_(client.cache["target"])

    def finish(self, client: ClientContext) -> Finished:
        fisher = self._fisher(client)
        if self.kept_change:
            client.weights.copy_(torch.where(fisher > 0, client.weights, client.start.parameters))
        new = {"fisher": fisher, "weighted": fisher * client.weights}
        uploads = new
        if self.memory == "all":
            decay = self._decay_since(client, client.context.round)
            uploads = {name: new[name] - decay * client.state[name] for name in new}
        round = torch.full((1,), float(client.context.round), dtype=client.weights.dtype)
        return Finished(uploads, {**new, "round": round})

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        update = super().aggregate(server, aggregate, context)
        for name, upload in (("u", "fisher"), ("v", "weighted")):
            before = self.decay * server[name] if self.memory == "all" else 0.0
            update.server[name] = before + aggregate.sum(upload)
        update.server["round"] = torch.full((1,), float(context.round), dtype=torch.float64)
        stiffness = [context.lr * self.weight * float(state["u"].max()) for state in (server, update.server)]
        if not stiffness[0] < 1 <= stiffness[1]:
            return update
        warning = f"fedcurv: lr * weight * max(u) = {stiffness[1]:.3g} may overshoot: lower method.weight"
        return replace(update, warnings=(warning,))

    def _decay_since(self, client: ClientContext, round: int) -> float:
        """Return the decay of the client's last upload up to a round."""
        return float(self.decay ** (round - int(client.state["round"])))

    def _fisher(self, client: ClientContext) -> Tensor:
        rows = torch.arange(client.size)
        if self.max_samples is not None and self.max_samples < client.size:
            rows = torch.randperm(client.size, generator=client.generator)[: self.max_samples].sort()[0]
        fisher = torch.zeros_like(client.weights)
        for part in torch.split(rows, 50):
            x, y = client.data(part)
            if self.labels == "sampled":
                with client.model.evaluating(), torch.no_grad():
                    probabilities = torch.softmax(client.forward(x), 1).cpu()
                y = torch.multinomial(probabilities, 1, generator=client.generator).squeeze(1).to(y.device)
            client.forwards, client.backwards = client.forwards + len(y), client.backwards + len(y)
            fisher += sum_of_squared_gradients(client.model, x, y, client.context.data.task)
        fisher /= len(rows)
        if self.kept < 1:
            largest = torch.topk(fisher, math.ceil(self.kept * len(fisher)), sorted=False).indices
            fisher = torch.zeros_like(fisher).index_copy_(0, largest, fisher[largest])
        return fisher
