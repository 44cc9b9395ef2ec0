"""Averaging of classifier rows by label, from HeteroFL (Diao et al., 2021, "HeteroFL: Computation and
Communication Efficient Federated Learning for Heterogeneous Clients").
https://arxiv.org/abs/2010.01264

    row c of the classifier   w_c <- w_c + sum_{k owns c} p_k (y_kc - w_c) / sum_{k owns c} p_k
    all other parameters      as FedAvg

A client owns the labels that its training data have; it sends the rows of other labels as it received them,
and a row that no client of the round owns is unchanged. HeteroFL trains with loss `masked` and weights all
clients equally (weighting = "uniform"). Departures: any loss goes with it, clients are weighted by their
samples by default, and models of different widths are not part of this. A server optimizer with momentum
moves rows that no client owns by its momentum; one with a sign mask is refused.
"""

import torch
from torch import Tensor

from eunoe.core.flat_model import FlatModel
from eunoe.core.tasks import CLASSES
from eunoe.errors import InputError
from eunoe.methods import Aggregate, ClientContext, Cost, Finished, Method, RoundContext, Upload, Vectors


def by_row(model: FlatModel, per_class: Tensor) -> Tensor:
    """Return a number per parameter: its class's in the classifier's last layer, 1 everywhere else."""
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
    needs_features = True
    tasks = CLASSES
    # Where few clients have a label, most changes of its row are 0, and so would be their median.
    takes_aggregation = False

    def check(self, context: RoundContext) -> list[str]:
        if context.server_optimizer.gma is not None:
            # It would damp most the rows that few clients own, which this method should keep.
            raise InputError("labelwise cannot be combined with server_optimizer.gma: leave it out")
        return super().check(context)

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        return {"owned": Upload(self.weighting, context.data.classes, lowest=0.0, highest=1.0, whole=True)}

    def finish(self, client: ClientContext) -> Finished:
        owned = (client.counts > 0).to(client.weights)
        # An unchanged row adds nothing to the sum.
        sent = torch.where(by_row(client.model, owned) > 0, client.weights, client.start.parameters)
        client.weights.copy_(sent)
        return Finished({"owned": owned})

    def pseudo_gradient(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> Tensor:
        assert context.trainer is not None
        share = by_row(context.trainer.model, aggregate.mean("owned"))
        return torch.where(share > 0, aggregate.mean("change") / share, 0.0)
