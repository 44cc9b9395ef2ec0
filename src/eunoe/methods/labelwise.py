"""Averaging of classifier rows by label, from HeteroFL (Diao et al., 2021, "HeteroFL: Computation and
Communication Efficient Federated Learning for Heterogeneous Clients").

    row c of the classifier   w_c <- w_c + sum_{k owns c} p_k (y_kc - w_c) / sum_{k owns c} p_k
    all other parameters      as FedAvg

A client owns the labels that its training data have; a row that nobody in the round owns stays as it is.
HeteroFL trains with loss `masked` and lets all clients count alike (weighting = "uniform"); here any loss
goes with it, and clients count by their samples unless told otherwise. Its models of different widths are
not part of this. The model that a client sends, which is also the one that probes look at, has the rows of
labels that it lacks as it received them. A server optimizer with momentum moves rows that nobody owns by its
momentum. One with a sign mask is refused.
"""

import torch
from torch import Tensor

from eunoe.core.flat_model import FlatModel, Vectors
from eunoe.errors import InputError
from eunoe.methods.base import Finished, Method
from eunoe.methods.client_context import ClientContext
from eunoe.methods.context import RoundContext
from eunoe.server.aggregate import Aggregate, Upload
from eunoe.server.cost import Cost


def by_row(model: FlatModel, per_class: Tensor) -> Tensor:
    """A number per parameter: that of its class in the classifier's last layer, 1 everywhere else."""
    numbers = per_class.new_ones(model.parameters.numel())
    owners = [name.rpartition(".")[0] for name in model.names]
    last = [owner for owner in owners if owner.split(".")[0] == "classifier"][-1:]
    for owner, part in zip(owners, model.views(numbers), strict=True):
        if owner in last:
            part.copy_(per_class.view(-1, *[1] * (part.ndim - 1)))
    return numbers


class Labelwise(Method):
    """FedAvg in which a class's row of the classifier is averaged over the clients that have the class."""

    cost = Cost(up="1 + C")

    def check(self, context: RoundContext) -> list[str]:
        if not context.has_features:
            raise InputError("labelwise needs a model that gives `classifier(features(x))`")
        if context.server_optimizer.gma is not None:
            # It would damp most the rows that few clients own, which this method is there to keep.
            raise InputError(
                "labelwise leaves rows of labels that a client lacks as they were, which gma takes for "
                "disagreement: leave server_optimizer.gma out"
            )
        return []

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        return {"owned": Upload(self.weighting, context.classes)}

    def finish(self, client: ClientContext) -> Finished:
        owned = (client.counts > 0).to(client.weights)
        # What is back where it was adds nothing to the sum.
        kept = torch.where(by_row(client.model, owned) > 0, client.weights, client.start.parameters)
        client.weights.copy_(kept)
        return Finished({"owned": owned})

    def pseudo_gradient(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> Tensor:
        assert context.trainer is not None
        share = by_row(context.trainer.model, aggregate.mean("owned"))
        return torch.where(share > 0, aggregate.mean("change") / share, 0.0)
