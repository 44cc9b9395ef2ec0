"""FedReg (Xu et al., 2022, "Acceleration of Federated Learning with Alleviated Forgetting in Local
Training").
https://arxiv.org/abs/2203.02645

Once per participation, from the received model w and each sample (x, y), by steps of sign-gradient ascent
on the cross-entropy with the true label:

    pseudo data     x_s, steps of ps_eta; its target is the received model's own prediction on it
    perturbed data  x_p, steps of pt_eta; its target is y

One local step, with d = y - w the update so far:

    y <- y - lr * gradient of L on the batch at gamma y + (1 - gamma) w
    at beta y + (1 - beta) w:  g_s = gradient of the cross-entropy with the target on the batch's pseudo data,
                               g_p = gradient of L on its perturbed data
    d <- d - max(0, <d, g_s> / ||g_s||^2) g_s ; then the same with g_p

so that, to first order, neither loss has grown since the global model was received.

    L               the chosen loss (cross-entropy in the paper)
    gamma, beta     gamma, beta     mixtures with the received model
    eta_s, eta_p    ps_eta, pt_eta (by default a hundredth of ps_eta)
    p_iters         ascent_steps

Departures: the authors' code pairs a batch with data generated from other samples; here they are from the
same samples. They have no momentum; here any optimizer takes the first step. As in their code, nothing is
clamped to the range of the data. Generated data are made without augmentation and pass in evaluation mode.
"""

from typing import cast

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from eunoe.config.options import Steps
from eunoe.core.fields import Input
from eunoe.core.tasks import CLASSES
from eunoe.errors import InputError
from eunoe.methods import Batch, ClientContext, Cost, Method, Neutral, RoundContext
from eunoe.server.aggregate import Weighting


class FedReg(Method):
    """FedReg: steps are projected so that the loss on pseudo and perturbed data does not increase."""

    weighting: Weighting = "uniform"
    gamma: float = Field(0.5, ge=0, le=1, description="Share of the client's model in the training point.")
    beta: float = Field(0.5, ge=0, le=1, description="Share of the client's model in the projection point.")
    ps_eta: float = Field(0.1, ge=0, description="Step size of pseudo data.")
    pt_eta: float | None = Field(None, ge=0, description="Step size of perturbed data (ps_eta / 100).")
    ascent_steps: Steps = Field(10, ge=0, description="Ascent steps of both.")
    pseudo: bool = Field(True, description="Preserve the received model's outputs on pseudo data.")
    perturbed: bool = Field(True, description="Preserve the labels of perturbed data.")

    cost = Cost(client_compute="+ 2 passes forward and back a step, + 20 a round")
    tasks = CLASSES
    neutral = Neutral({"gamma": 1.0, "pseudo": False, "perturbed": False})

    def check(self, context: RoundContext) -> list[str]:
        if context.data.integers and (self.pseudo or self.perturbed):
            raise InputError("fedreg requires real-valued inputs, not integers such as token ids")
        if context.data.structured and (self.pseudo or self.perturbed):
            raise InputError("fedreg supports single-tensor inputs of fixed length only")
        return super().check(context)

    def begin(self, client: ClientContext) -> None:
        generated: dict[str, list[Tensor]] = {"pseudo": [], "target": [], "perturbed": []}
        pt_eta = self.ps_eta / 100 if self.pt_eta is None else self.pt_eta
        with client.model.evaluating():
            for rows in torch.split(torch.arange(client.size), 500):
                x, y = client.data(rows)
                if self.pseudo:
                    generated["pseudo"].append(self._ascend(client, x, y, self.ps_eta))
                    with torch.no_grad():
                        generated["target"].append(torch.softmax(client.forward(generated["pseudo"][-1]), 1))
                if self.perturbed:
                    generated["perturbed"].append(self._ascend(client, x, y, pt_eta))
        client.rows.update({name: torch.cat(values) for name, values in generated.items() if values})

    def step(self, client: ClientContext, batch: Batch) -> None:
        start, rows = client.start.parameters, client.rows
        mixed = torch.lerp(start, client.weights, self.gamma)
        gradient = client.gradient_at(mixed, client.loss_at(batch.x, batch.y), batch)
        loss = client.last_loss
        client.descend(client.decayed(gradient))
        point = torch.lerp(start, client.weights, self.beta)
        with client.model.evaluating():
            if self.pseudo:
                x, target = rows["pseudo"][batch.index], rows["target"][batch.index]

                def distance(at: Tensor) -> Tensor:
                    return -(target * client.forward(x, at).log_softmax(1)).sum(1)

                self._project(client, client.gradient_at(point, distance, batch))
            if self.perturbed:
                perturbed = rows["perturbed"][batch.index]
                self._project(client, client.gradient_at(point, client.loss_at(perturbed, batch.y), batch))
        client.last_loss = loss

    def _project(self, client: ClientContext, gradient: Tensor) -> None:
        """Remove from the update so far the component that raises the loss with this gradient."""
        move = client.weights - client.start.parameters
        share = torch.relu((move * gradient).sum() / (gradient.square().sum() + 1e-30))
        client.weights.sub_(share * gradient)

    def _ascend(self, client: ClientContext, inputs: Input, y: Tensor, eta: float) -> Tensor:
        x = cast(Tensor, inputs)
        for _ in range(self.ascent_steps):
            x = x.detach().requires_grad_()
            client.backwards += len(y)
            loss = F.cross_entropy(client.forward(x), y, reduction="sum")
            x = x + eta * torch.autograd.grad(loss, x)[0].sign()
        return x.detach()
