"""Central training: no clients, all samples in one place. The upper bound for every federated method.

    w  <-  w after [training] on the samples in one place, by cross-entropy

    on = "all"       what the clients train on, and the public set if it was taken from the same data:
                     the best that a federation could reach
    on = "public"    the public set alone: what the server can do without clients

A round trains as a client would: by the options of [training], at the learning rate of that round. The
optimizer's momenta carry over between rounds, so epochs = 1 gives an ordinary training loop with an
evaluation after each epoch. Validation parts are left out, so that the numbers compare with a federated
run's. The loss is plain cross-entropy; any other is refused.
"""

from typing import Literal

import torch
from pydantic import Field

from eunoe.methods import Aggregate, Cost, Method, RoundContext, ServerUpdate, Vectors, Weights
from eunoe.server.trainer import ServerTrainer, public_trainer

_MOMENT = "moment "


class Central(Method):
    """No federation: central training on all samples or on the public set."""

    on: Literal["all", "public"] = Field("all", description="The samples to train on.")

    cost = Cost(up="0", down="0", server_extra="all training")
    takes_server_optimizer = False
    takes_aggregation = False
    trains_clients = False

    def check(self, context: RoundContext) -> list[str]:
        self._trainer(context)
        return []

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        return {"steps": torch.zeros(1, dtype=torch.int64)}

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        trainer = self._trainer(context)
        pool = trainer.everything() if self.on == "all" else trainer.public("train")
        names = [name for name in server if name.startswith(_MOMENT)]
        moments = {name.removeprefix(_MOMENT): server[name].clone() for name in names}
        trained = trainer.train(
            aggregate.start,
            trainer.plain_loss(pool),
            pool,
            context.training.model_copy(update={"lr": context.lr}),
            context.round,
            augmented=True,
            moments=moments,
            steps_taken=int(server["steps"]),
        )
        state = {_MOMENT + name: value for name, value in moments.items()}
        state["steps"] = server["steps"] + trained.record["steps"]
        return ServerUpdate(trained.weights, state, trained.record)

    def _trainer(self, context: RoundContext) -> ServerTrainer:
        if self.on == "public":
            return public_trainer(context.trainer, "central on public data", labels=True, validation=False)
        assert context.trainer is not None
        return context.trainer
