"""FedProj (Chunduru et al., 2025, "Avoid Forgetting by Preserving Global Knowledge Gradients in Federated
Learning with Non-IID Data").
https://arxiv.org/abs/2505.20485

    client:  g  = gradient of L on the batch
             gm = gradient of KL( softmax(zt / tau) || softmax(z / tau) ) on a batch of the memory
             y <- y - lr (g - min(0, <g, gm>) / ||gm||^2 gm)
    server:  w <- mean of y_k ;  zt <- mean over the round's clients of the logits of y_k on the public set
             w <- w trained on the public set to minimize tau^2 KL( softmax(zt / tau) || softmax(z / tau) )

    L        the chosen loss (cross-entropy in the paper)
    z        logits of the model in training; zt of the ensemble of the last round, on the same input
    memory   memory        public inputs, drawn for each round
    tau      temperature   3 in the authors' published commands
    Adam     server_epochs, server_lr, server_batch_size: 1, 0.00001 and 128 there

This follows the authors' code. Departures: it projects from round 11 on; here from round 2, when there is an
ensemble. A batch of the memory is as large as the client's batch (256 there), and passes in evaluation mode,
so that normalization statistics are those of the client's own data. The server sends the memory's inputs and
logits with the model in each round. Weight decay is part of g. Their code adds the squared distance of the
student from itself, which is 0.
"""

from typing import cast

import torch
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Finite, Steps, Training
from eunoe.core.flat_model import Vectors
from eunoe.core.rng import generator
from eunoe.core.tasks import CLASSES
from eunoe.errors import InputError
from eunoe.losses.distillation import divergence
from eunoe.methods import Batch, ClientContext, Cost, Method, Neutral, RoundContext, ServerUpdate
from eunoe.server.aggregate import Aggregate
from eunoe.server.trainer import SoftTargets, public_trainer


class FedProj(Method):
    """FedProj: steps are projected so that an ensemble's outputs on public data are not forgotten."""

    memory: Steps = Field(500, ge=0, description="Public samples sent to clients each round; 0: none.")
    temperature: Finite = Field(3.0, gt=0, description="Temperature of both divergences.")
    server_epochs: Steps = Field(1, ge=0, description="Epochs at the server per round; 0: averaging only.")
    server_lr: Finite = Field(1e-5, gt=0, description="Learning rate of adam at the server.")
    server_batch_size: Steps = Field(128, ge=1, description="Public samples in a batch at the server.")

    cost = Cost("0", "1", "1 + memory", "+ 1 pass forward and back a step", "m forward, 1 epoch")
    takes_server_optimizer = False
    keeps_models = True
    tasks = CLASSES
    neutral = Neutral({"memory": 0, "server_epochs": 0})

    def check(self, context: RoundContext) -> list[str]:
        if self.memory and context.data.structured:
            raise InputError("fedproj supports single-tensor inputs of fixed length only")
        if self.memory or self.server_epochs:
            batch = self.server_batch_size if self.server_epochs else 0
            public_trainer(context.trainer, "fedproj", validation=False, batch=batch)
        return []

    def broadcast(self, server: Vectors, context: RoundContext) -> Vectors:
        if not self.memory or "logits" not in server:
            return {}
        pool = public_trainer(context.trainer, "fedproj", validation=False).public("train")
        rng = generator(context.seed, "public memory", context.round)
        rows = torch.from_numpy(rng.choice(len(pool), min(self.memory, len(pool)), replace=False))
        inputs = cast(Tensor, pool.inputs(rows))
        return {"inputs": inputs.flatten(), "logits": server["logits"][rows].flatten()}

    def step(self, client: ClientContext, batch: Batch) -> None:
        if not client.shared:
            super().step(client, batch)
            return
        inputs = client.shared["inputs"].view(-1, *cast(Tensor, batch.x).shape[1:])
        logits = client.shared["logits"].view(len(inputs), -1)
        # Other samples of the memory in each step.
        rows = (batch.index + client.steps_taken * client.size) % len(inputs)

        def memory_loss(at: Tensor) -> Tensor:
            return divergence(logits[rows], client.forward(inputs[rows], at), self.temperature)

        gradient = client.gradient(lambda: self.loss(client, batch), batch)
        loss = client.last_loss
        with client.model.evaluating():
            memory = client.gradient_at(client.weights, memory_loss, batch)
        client.last_loss = loss
        conflict = (gradient * memory).sum().clamp(max=0.0) / (memory.square().sum() + 1e-30)
        client.descend(gradient - conflict * memory)

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        average = super().aggregate(server, aggregate, context)
        if not (self.memory or self.server_epochs):
            return average
        trainer = public_trainer(context.trainer, "fedproj", validation=False)
        pool, total = trainer.public("train"), torch.zeros((), dtype=torch.float64)
        for model in aggregate.models:
            total = total + trainer.outputs(model, pool).double()
        logits = (total / len(aggregate.models)).to(trainer.model.dtype)
        state = {**average.server, "logits": logits}
        if not self.server_epochs:
            return ServerUpdate(average.weights, state)
        targets = SoftTargets.of([logits], torch.ones_like(logits[:1]), self.temperature)
        options = {"lr": self.server_lr, "epochs": self.server_epochs, "batch_size": self.server_batch_size}
        trained = trainer.train(
            average.weights,
            lambda student, rows: self.temperature**2 * targets.divergence(student, rows),
            pool,
            Training(optimizer="adam", **options),
            context.round,
        )
        return ServerUpdate(trained.weights, state, trained.record)
