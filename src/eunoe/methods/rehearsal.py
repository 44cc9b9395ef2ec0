"""Rehearsal (Robins, 1995, "Catastrophic Forgetting, Rehearsal and Pseudorehearsal").
https://doi.org/10.1080/09540099550039318

    server:  w <- mean of the clients' models, then server_steps steps on samples of the reference sets

Departures: the paper mixes earlier items into each training set of one network; here clients never see the
reference samples, and the server replays them after each round.
"""

import torch
from pydantic import Field

from eunoe.config.options import Positive, Steps, Training, Whole
from eunoe.methods import Aggregate, Cost, Method, Neutral, RoundContext, ServerUpdate, Vectors
from eunoe.server.trainer import Pool, reference_trainer


class Rehearsal(Method):
    """Rehearsal: the server trains the average on reference samples, to restore what a round took."""

    server_steps: Steps = Field(10, ge=0, description="Steps on each reference set after a round.")
    server_lr: Positive = Field(0.01, description="Learning rate of sgd at the server.")
    server_batch_size: Whole = Field(50, ge=1, description="Reference samples in a batch.")

    cost = Cost(server_extra="steps on reference samples")
    neutral = Neutral({"server_steps": 0})

    def check(self, context: RoundContext) -> list[str]:
        reference_trainer(context.trainer, "rehearsal")
        return []

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        update = super().aggregate(server, aggregate, context)
        if not self.server_steps:
            return update
        trainer, weights, record = reference_trainer(context.trainer, "rehearsal"), update.weights, {}
        options = Training(steps=self.server_steps, batch_size=self.server_batch_size, lr=self.server_lr)
        for name, data in trainer.federation.references.items():
            pool = Pool(trainer.federation, f"retain train {name}", torch.arange(len(data.train)))
            trained = trainer.train(weights, trainer.plain_loss(pool), pool, options, context.round)
            weights, record = trained.weights, trained.record
        return ServerUpdate(weights, update.server, record, update.warnings)
