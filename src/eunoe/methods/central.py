"""Central training: no clients, all samples in one place. The bound that every figure needs.

    w  <-  w after [training] on the samples in one place, by cross-entropy

    on = "all"       what the clients train on, and the public set if it was taken from the same data:
                     what a federation could reach at best
    on = "public"    the public set alone: what the server could do without any client

A round is what a client's participation would be: the epochs (or steps) of [training], with its batch size,
optimiser, weight decay, clipping and augmentation, and the learning rate of that round. The optimiser's
momenta go on from round to round, as they would in an ordinary training loop, so epochs = 1 gives such a loop
with an evaluation after each epoch. Validation parts stay out, so that numbers compare with a
federated run's. The loss is plain cross-entropy, and any other is refused.
"""

from typing import ClassVar, Literal

import torch
from pydantic import Field

from eunoe.core.flat_model import Weights
from eunoe.methods.base import Cost, Merged, Method, Vectors
from eunoe.methods.context import Setting
from eunoe.server.trainer import ServerTrainer, public_trainer
from eunoe.training.aggregation import Sums

_MOMENT = "moment "


class Central(Method):
    """No federation: training in one place, on all samples or on the public set."""

    on: Literal["all", "public"] = Field("all", description="The samples to train on.")

    cost: ClassVar[Cost] = Cost(up="0", down="0", server_extra="all training")
    takes_server_step: ClassVar[bool] = False
    trains_clients: ClassVar[bool] = False

    def check(self, setting: Setting) -> list[str]:
        self._trainer(setting)
        return []

    def start(self, weights: Weights, setting: Setting) -> Vectors:
        return {"steps": torch.zeros(1, dtype=torch.int64)}

    def merge(self, server: Vectors, sums: Sums, setting: Setting) -> Merged:
        trainer = self._trainer(setting)
        pool = trainer.everything() if self.on == "all" else trainer.public("train")
        moments = {
            name.removeprefix(_MOMENT): value.clone()
            for name, value in server.items()
            if name.startswith(_MOMENT)
        }
        trained = trainer.train(
            sums.start,
            trainer.cross_entropy(pool),
            pool,
            setting.training.model_copy(update={"lr": setting.lr}),
            setting.round,
            augmented=True,
            moments=moments,
            taken=int(server["steps"]),
        )
        state = {_MOMENT + name: value for name, value in moments.items()}
        return Merged(trained.weights, {**state, "steps": server["steps"] + trained.steps}, trained.record)

    def _trainer(self, setting: Setting) -> ServerTrainer:
        if self.on == "public":
            return public_trainer(setting, "central on public data", labels=True, validation=False)
        assert setting.trainer is not None
        return setting.trainer
