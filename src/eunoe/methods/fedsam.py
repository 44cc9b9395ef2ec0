"""FedSAM (Qu et al., 2022, "Generalized Federated Learning via Sharpness Aware Minimization",
https://arxiv.org/abs/2206.02618; Caldarola et al., 2022, "Improving Generalization in Federated Learning
by Seeking Flat Minima", https://arxiv.org/abs/2203.11834).

    client:  g = gradient of F_k on the batch at y ;  e = rho g / ||g||
             y <- y - lr * (gradient of F_k on the same batch at y + e)
    server:  as FedAvg

    rho   rho   how far the step looks up the slope before it descends

No radius serves everywhere: tune it; 0.05 is the default of SAM itself (Foret et al., 2021). The papers
descend by SGD; here any optimizer takes the step. Weight decay is no part of g: it is taken at y, as in an
ordinary step, and momentum and clipping see the second gradient alone. Both passes are in training mode, but
batch normalization updates its statistics in the first alone, so that they are those of the models on the
client's path and are counted once a step. Dropout draws anew in the second pass. The loss that is reported
is that of the first. Clients count by samples; `weighting = "uniform"` makes all count alike.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from pydantic import Field
from torch import Tensor, nn

from eunoe.methods.base import Method, Neutral
from eunoe.methods.client_context import Batch, ClientContext
from eunoe.server.cost import Cost


class FedSAM(Method):
    """FedSAM: clients descend by the gradient a little up the slope, toward minima that are flat."""

    rho: float = Field(
        0.05, ge=0, allow_inf_nan=False, description="How far up the slope the gradient is taken."
    )

    cost = Cost(client_compute="+ 1 pass forward and back a step")
    neutral = Neutral({"rho": 0.0})

    def step(self, client: ClientContext, batch: Batch) -> None:
        def loss(at: Tensor) -> Tensor:
            return client.criterion(client.forward(batch.x, at), batch.y)

        gradient = client.gradient_at(client.weights, loss, batch)
        loss_here = client.last_loss
        # The addend only keeps a gradient of exactly 0 from dividing by 0.
        ascent = self.rho * gradient / (torch.linalg.vector_norm(gradient) + 1e-30)
        with _statistics_kept(client.model.module):
            gradient = client.gradient_at(client.weights + ascent, loss, batch)
        client.last_loss = loss_here
        client.descend(client.decayed(gradient))


@contextmanager
def _statistics_kept(module: nn.Module) -> Iterator[None]:
    """Normalize by the batch inside, as in training, and leave the running statistics alone."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    tracked = [norm.track_running_stats for norm in norms]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm, before in zip(norms, tracked, strict=True):
            norm.track_running_stats = before
