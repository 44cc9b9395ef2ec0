"""FedSOL (Lee et al., 2024, "FedSOL: Stabilized Orthogonal Learning with Proximal Restrictions in Federated
Learning").
https://arxiv.org/abs/2308.12532

    client:  g = gradient at y of KL( softmax(zg / tau) || softmax(z / tau) )
             e = rho s g / ||g||
             y <- y - lr * (gradient of L on the same batch at y + e)
    server:  as FedAvg

    L       the chosen loss (cross-entropy in the paper)
    z, zg   logits of the client and of the model it received, which is frozen
    s       adaptive = true:   |y - w|, each parameter tensor normalized along its first dimension
            adaptive = false:  1
    rho     rho           radius of the perturbation (1 in the authors' published commands)
    tau     temperature   temperature of both softmaxes (3 in the authors' code)

The scale s has the form of the authors' code. Departures: the received model is in evaluation mode. Weight
decay is computed at y. As in fedsam.py, batch normalization updates its running statistics in the first pass
only, and any optimizer takes the step. The reported loss is that at y + e.
"""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from eunoe.config.options import Finite
from eunoe.core.tasks import CLASSES
from eunoe.losses.distillation import divergence
from eunoe.methods import Batch, ClientContext, Cost, Method, Neutral
from eunoe.methods.fedsam import frozen_statistics


class FedSOL(Method):
    """FedSOL: local gradients at weights that are perturbed against the received model's outputs."""

    rho: Finite = Field(1.0, ge=0, description="Radius of the perturbation.")
    temperature: Finite = Field(3.0, gt=0, description="Temperature of the divergence.")
    adaptive: bool = Field(True, description="Perturb weights in proportion to how far they have moved.")

    cost = Cost(client_compute="+ 1 pass forward and back and 1 forward a step")
    tasks = CLASSES
    neutral = Neutral({"rho": 0.0})

    def begin(self, client: ClientContext) -> None:
        client.freeze("received", client.start)

    def step(self, client: ClientContext, batch: Batch) -> None:
        received = client.frozen("received", batch)

        def distance(at: Tensor) -> Tensor:
            return divergence(received, client.forward(batch.x, at), self.temperature)

        gradient = client.gradient_at(client.weights, distance, batch)
        # The constant only avoids a division by 0.
        perturbation = self.rho * gradient / (torch.linalg.vector_norm(gradient) + 1e-30)
        if self.adaptive:
            parts = client.model.views((client.weights - client.start.parameters).abs())
            perturbation = perturbation * torch.cat([F.normalize(part, dim=0).flatten() for part in parts])
        with frozen_statistics(client.model.module):
            loss = client.loss_at(batch.x, batch.y)
            gradient = client.gradient_at(client.weights + perturbation, loss, batch)
        client.descend(client.decayed(gradient))
