"""FedDF (Lin et al., 2020, "Ensemble Distillation for Robust Model Fusion in Federated Learning").
https://arxiv.org/abs/2006.07242

    w  <-  mean of the clients' models y_k                       the student's start
    w  <-  w trained on public inputs x to minimize  KL( P(x) || softmax(f(w; x)) )

    P = softmax( mean_k f(y_k; x) )         ensemble = "logits", as in the authors' published commands
    P = mean_k softmax( f(y_k; x) )         ensemble = "probabilities"

by Adam with a cosine learning rate schedule, with early stopping on the public validation set; the best model
is kept. The average is a candidate, so that a student that only gets worse leaves it as it is; without
`keep_average` the best student is kept then.

    symbol                                     argument
    batches at most (10,000)                   steps      (0: plain averaging)
    batch size, learning rate                  batch_size, lr
    steps between evaluations, patience        every, patience
    largest norm of a gradient (5)             clip

Departures: the authors' published commands are without `keep_average`. Their third ensemble, the mean over
clients of KL(softmax(f(y_k)) || softmax(f(w))), trains the same model as "probabilities".
Public labels are used for nothing but validation; a public set of other classes (or none) is validated by its
divergence from the ensemble. Teachers see un-augmented inputs once. The authors' clients train with
lr 0.1, no momentum, no weight decay, batch 64, 40 epochs: set that in [training].
"""

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Finite, Steps, Training
from eunoe.core.tasks import CLASSES
from eunoe.methods import Aggregate, Cost, Method, Neutral, RoundContext, ServerUpdate, Vectors, Weights
from eunoe.server.aggregate import Weighting
from eunoe.server.trainer import Pool, ServerTrainer, SoftTargets, Stopping, public_trainer


class FedDF(Method):
    """FedDF: the mean model, distilled at the server from the clients' models on public inputs."""

    weighting: Weighting = "uniform"
    ensemble: Literal["logits", "probabilities"] = Field("logits", description="Teacher outputs to average.")
    steps: Steps = Field(10_000, ge=0, description="Maximum batches per round; 0: averaging only.")
    batch_size: Steps = Field(128, ge=1, description="Public samples in a batch.")
    lr: Finite = Field(1e-3, gt=0, description="Adam's learning rate at the first batch.")
    every: int = Field(100, ge=1, description="Batches between evaluations on the public validation set.")
    patience: int = Field(1000, ge=1, description="Batches without a better model after which to stop.")
    clip: Finite | None = Field(5.0, gt=0, description="Largest norm of the gradient.")
    freeze_statistics: bool = Field(False, description="Freeze the running statistics of batch norm.")
    previous_teaches: bool = Field(False, description="Let the model of the previous round teach too.")
    keep_average: bool = Field(True, description="Keep the clients' mean if no student is better.")
    least_accuracy: Finite = Field(0.0, ge=0, description="Minimum teacher accuracy in multiples of chance.")

    cost = Cost(server_extra="m forward of public data, up to 10,000 batches of training")
    takes_server_optimizer = False
    keeps_models = True
    tasks = CLASSES
    neutral = Neutral({"steps": 0})

    def check(self, context: RoundContext) -> list[str]:
        if self.steps:
            batch = 0 if self.freeze_statistics else self.batch_size
            public_trainer(context.trainer, "feddf", labels=self.least_accuracy > 0, batch=batch)
        return []

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        average = super().aggregate(server, aggregate, context)
        if not self.steps:
            return average
        trainer = public_trainer(context.trainer, "feddf")
        pool, validation = trainer.public("train"), trainer.public("validation")
        teachers = self.teachers(trainer, aggregate, context)
        targets = self.targets(trainer, teachers, pool)
        judge = trainer.accuracy(validation)
        if not trainer.federation.public_labeled:
            soft_labels = self.targets(trainer, teachers, validation)

            def judge(logits: Tensor) -> float:
                return -float(soft_labels.divergence(logits).double().mean())

        size, patience = self.batch_size, math.ceil(self.patience / self.every)
        trained = trainer.train(
            average.weights,
            targets.divergence,
            pool,
            Training(optimizer="adam", lr=self.lr, steps=self.steps, batch_size=size, clip=self.clip),
            context.round,
            stopping=Stopping(judge, patience, self.every, start_counts=self.keep_average),
            anneal=True,
            freeze_statistics=self.freeze_statistics,
        )
        return ServerUpdate(trained.weights, average.server, {**trained.record, "teachers": len(teachers)})

    def teachers(self, trainer: ServerTrainer, aggregate: Aggregate, context: RoundContext) -> list[Weights]:
        """Return the models that teach in this round."""
        models = [*aggregate.models, aggregate.start] if self.previous_teaches else list(aggregate.models)
        if not self.least_accuracy:
            return models
        validation = trainer.public("validation")
        accuracy, least = trainer.accuracy(validation), self.least_accuracy / context.data.classes
        accurate = [model for model in models if accuracy(trainer.outputs(model, validation)) >= least]
        # If none is good enough, all of them teach.
        return accurate or models

    def targets(self, trainer: ServerTrainer, teachers: list[Weights], pool: Pool) -> SoftTargets:
        """Return the ensemble's soft targets for each public sample."""
        outputs = (trainer.outputs(teacher, pool) for teacher in teachers)
        dtype, classes = trainer.model.dtype, trainer.federation.classes
        if self.ensemble == "probabilities":
            return SoftTargets.of(outputs, torch.full((len(teachers), classes), 1 / len(teachers)).double())
        total = sum((logits.double() for logits in outputs), torch.zeros((), dtype=torch.float64))
        return SoftTargets.of([(total / len(teachers)).to(dtype)], torch.ones(1, classes, dtype=dtype))
