"""FedSAM (Qu et al., 2022, "Generalized Federated Learning via Sharpness Aware Minimization").
https://arxiv.org/abs/2206.02618 (also Caldarola et al., 2022, https://arxiv.org/abs/2203.11834)

    client:  g = gradient of F_k on the batch at y ;  e = rho g / ||g||
             y <- y - lr * (gradient of F_k on the same batch at y + e)
    server:  as FedAvg

    rho   rho   radius of the perturbation; tune it (0.05 is SAM's own default, Foret et al., 2021)

Departures: the papers use SGD; here any optimizer takes the step. Weight decay is computed at y, and momentum
and clipping only see the second gradient. Batch normalization updates its running statistics in the first
pass only, and dropout draws a new mask in the second. The reported loss is that of the first pass. Clients
are weighted by samples.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from pydantic import Field
from torch import nn

from eunoe.methods import Batch, ClientContext, Cost, Method, Neutral


class FedSAM(Method):
    """FedSAM: local steps by sharpness-aware minimization, which seeks flat minima."""

    rho: float = Field(0.05, ge=0, allow_inf_nan=False, description="Radius of the perturbation.")

    cost = Cost(client_compute="+ 1 pass forward and back a step")
    neutral = Neutral({"rho": 0.0})

    def step(self, client: ClientContext, batch: Batch) -> None:
        loss = client.loss_at(batch.x, batch.y)
        gradient = client.gradient_at(client.weights, loss, batch)
        loss_here = client.last_loss
        # The constant only avoids a division by 0.
        perturbation = self.rho * gradient / (torch.linalg.vector_norm(gradient) + 1e-30)
        with frozen_statistics(client.model.module):
            gradient = client.gradient_at(client.weights + perturbation, loss, batch)
        client.last_loss = loss_here
        client.descend(client.decayed(gradient))


@contextmanager
def frozen_statistics(module: nn.Module) -> Iterator[None]:
    """Use batch statistics in batch normalization without updating the running statistics."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    tracked = [norm.track_running_stats for norm in norms]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm, before in zip(norms, tracked, strict=True):
            norm.track_running_stats = before
