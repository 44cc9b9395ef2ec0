"""Flashback (Aljahdali et al., 2024, "Flashback: Understanding and Mitigating Forgetting in Federated
Learning").
https://arxiv.org/abs/2402.05558

A teacher is weighted in each class by how much it has seen of it. With label counts nu of the student and
mu_i of teacher i, per class c,

    alpha_i[c] = mu_i[c] / (nu[c] + sum_j mu_j[c])         alpha_s[c] = 1 - sum_i alpha_i[c]
    dKD(x, y)  = alpha_s[y] CE(student(x), y) + sum_i sum_c alpha_i[c] p_i[c] log(p_i[c] / q[c])

where p_i and q are the outputs of teacher i and of the student at temperature T. Clients minimize dKD with
the model they received as the only teacher (mu = pi, nu = their own counts). The server averages their
models and trains the average by dKD on the public set: teachers are the round's local models (mu_k) and the
model sent in this round (mu = pi), and nu = pi. Then pi += gamma mu_k, for each client at most 1/gamma times.

    symbol                        argument
    gamma, T                      gamma (0.025 for CIFAR-10, 0.1 for CINIC-10 and FEMNIST), temperature
    E_s, until early stopping     server_epochs (at most), server_patience
    eta, B at the server          server_lr, server_momentum, server_batch_size
    one-sided (figure 10)         local = "ce": at the server only; server_epochs = 0: at the clients only
    NTD at clients (figure 11)    local = "ntd": FedNTD's loss with its beta = 1, temperature 1
    (not in the paper)            server = "ce": fine-tuning at the server; with local = "ntd" that of FedNTD
    appendix B                    knowledge = "probabilities"
    (not in the paper)            decay: pi is multiplied by it in every round, so that counts of data that
                                  have changed fade; every participation then counts

Departures and what the paper leaves open: a class no client has seen has alpha_s = 1. The paper's "relative"
counts are taken as absolute; knowledge = "relative" divides by a client's size. With "probabilities" clients
send no counts: the server takes the mean output of each local model on the public set, and clients weigh pi
against their own class shares; gamma must be tuned again. There is no factor T^2, as printed: with it
(t_squared) local training hardly raises the loss, but the model learns more slowly and may stay at chance
(flashback-t-squared). The paper does not say how the server trains and stops: see finetune.py.
"""

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from eunoe.config.options import Finite
from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.tasks import CLASSES
from eunoe.losses.distillation import divergence, not_true_divergence, weigh_teachers
from eunoe.methods import Batch, ClientContext, Cost, Finished, Neutral, RoundContext, ServerUpdate
from eunoe.methods.fedntd import need_three_classes
from eunoe.methods.finetune import PublicEpochs
from eunoe.server.aggregate import Aggregate, Upload
from eunoe.server.trainer import PositionLoss, ServerTrainer, SoftTargets, public_trainer


class Flashback(PublicEpochs):
    """Flashback: distillation at clients and server, weighted by how much of a class a teacher has seen."""

    gamma: Finite = Field(0.025, ge=0, le=1, description="Share of label counts added per participation.")
    temperature: Finite = Field(3.0, gt=0, description="Temperature of all outputs in the distillation.")
    local: Literal["dynamic", "ntd", "ce"] = Field("dynamic", description="Local loss: dKD, NTD or neither.")
    server: Literal["dynamic", "ce"] = Field("dynamic", description="Server loss: dKD or cross-entropy.")
    knowledge: Literal["counts", "relative", "probabilities"] = Field(
        "counts", description="What a model knows of classes: label counts, their shares, or its mean output."
    )
    decay: Finite = Field(1.0, gt=0, le=1, description="Factor on the global label counts per round.")
    t_squared: bool = Field(False, description="Multiply the distillation by the temperature squared.")

    cost = Cost("0", "1 + C", "1 + C", "+ 1 forward a step", "m + 1 forward, epochs on public data; pi, r")
    takes_server_optimizer = False
    keeps_models = True
    tasks = CLASSES
    neutral = Neutral({"gamma": 0.0, "server_epochs": 0})

    def check(self, context: RoundContext) -> list[str]:
        if self.local == "ntd":
            need_three_classes(context, "flashback with local = 'ntd'", "set method.local = 'dynamic'")
        if self.server_epochs:
            public_trainer(context.trainer, "flashback", labels=True, batch=self.server_batch_size)
        elif self.knowledge == "probabilities":
            public_trainer(context.trainer, "flashback with knowledge = 'probabilities'", validation=False)
        return []

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        return {
            "pi": torch.zeros(context.data.classes, dtype=torch.float64),
            "participations": torch.zeros(context.data.clients, dtype=torch.int64),
        }

    def broadcast(self, server: Vectors, context: RoundContext) -> Vectors:
        return {"pi": server["pi"].to(context.model.dtype)}

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        if self.knowledge == "probabilities":
            return {}
        whole, classes = self.knowledge == "counts", context.data.classes
        upload = Upload("keep", classes, lowest=0.0, highest=1.0, total=True, whole=whole)
        return {"counts": upload._replace(per="sample") if whole else upload}

    def begin(self, client: ClientContext) -> None:
        if self.local != "ce":
            client.freeze("received", client.start)
        student, teacher = weigh_teachers(self._own(client), client.shared["pi"].to(client.counts)[None])
        client.cache |= {"student": student, "teacher": teacher[0]}

    def loss(self, client: ClientContext, batch: Batch) -> Tensor:
        logits = client.forward(batch.x)
        plain = client.criterion(logits, batch.y)
        if self.local == "ce":
            return plain
        received = client.frozen("received", batch)
        if self.local == "ntd":
            return plain + not_true_divergence(received, logits, batch.y)
        distance = divergence(received, logits, self.temperature, client.cache["teacher"])
        return client.cache["student"][batch.y] * plain + self._scale * distance

    def finish(self, client: ClientContext) -> Finished:
        return Finished({} if self.knowledge == "probabilities" else {"counts": self._own(client)})

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        update, outputs = super().aggregate(server, aggregate, context), []
        if self.server_epochs or self.knowledge == "probabilities":
            trainer = public_trainer(context.trainer, "flashback", validation=False)
            outputs = [trainer.outputs(model, trainer.public("train")) for model in aggregate.models]
        if self.knowledge == "probabilities":
            counts = torch.stack([F.softmax(logits.double(), 1).mean(0) for logits in outputs])
        else:
            counts = aggregate.kept("counts").double()
        if self.server_epochs:
            outputs.append(trainer.outputs(aggregate.start, trainer.public("train")))
            loss = self.server_loss(trainer, outputs, counts, server["pi"])
            trained = self.train_on_public(trainer, update.weights, loss, context.round)
            update = ServerUpdate(trained.weights, update.server, trained.record)
        clients, times = torch.tensor(aggregate.clients), server["participations"].clone()
        times[clients] += 1
        # Whole numbers are compared, since gamma * times would miss the last time by rounding.
        most = (math.floor(1 / self.gamma + 1e-9) if self.decay == 1 else math.inf) if self.gamma else 0
        counted = times[clients] <= most
        pi = self.decay * server["pi"] + self.gamma * counts[counted].sum(0)
        update.server.update(pi=pi, participations=times)
        return update

    def server_loss(
        self, trainer: ServerTrainer, outputs: list[Tensor], counts: Tensor, pi: Tensor
    ) -> PositionLoss:
        """Return the loss on the public set, given the outputs of the local models and of the model sent."""
        public = trainer.public("train")
        plain = trainer.plain_loss(public)
        if self.server == "ce":
            return plain
        student, teachers = weigh_teachers(pi, torch.cat([counts, pi[None]]))
        targets = SoftTargets.of(outputs, teachers, self.temperature)
        share = student.to(outputs[0])[public.labels]
        return lambda logits, positions: (
            share[positions] * plain(logits, positions) + self._scale * targets.divergence(logits, positions)
        )

    def _own(self, client: ClientContext) -> Tensor:
        return client.counts if self.knowledge == "counts" else client.counts / client.counts.sum()

    @property
    def _scale(self) -> float:
        return self.temperature**2 if self.t_squared else 1.0
