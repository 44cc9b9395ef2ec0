"""FedAvg with fine-tuning on the public set: the naive baseline of the Flashback paper (figure 6).

    w  <-  sum_k p_k y_k                                 as in FedAvg
    w  <-  w trained on the labeled public set by cross-entropy

It shows how much of a method's gain comes from the public labels alone. The paper says only that the model is
fine-tuned after each aggregation; here the training is Flashback's, with another loss.

    symbol                     argument
    E_s (at most), patience      server_epochs (0: plain FedAvg), server_patience
    eta, B at the server       server_lr, server_momentum, server_batch_size

The server trains by SGD with momentum until the public validation accuracy has not risen for
`server_patience` epochs, and keeps the best epoch. A rule on the loss would always keep the average: under
distillation the loss first rises.
"""

from pydantic import Field

from eunoe.config.options import Finite, Steps, Training
from eunoe.methods import Aggregate, Cost, Method, Neutral, RoundContext, ServerUpdate, Vectors, Weights
from eunoe.server.trainer import PositionLoss, ServerTrainer, Stopping, Trained, public_trainer


class PublicEpochs(Method):
    """Base of methods that train the average on the public set."""

    server_epochs: Steps = Field(30, ge=0, description="Maximum epochs per round; 0: averaging only.")
    server_patience: int = Field(8, ge=1, description="Epochs without a better model after which to stop.")
    server_lr: Finite = Field(0.01, gt=0, description="Learning rate of sgd at the server.")
    server_momentum: Finite = Field(0.9, ge=0, lt=1, description="Momentum of sgd at the server.")
    server_batch_size: Steps = Field(50, ge=1, description="Public samples in a batch.")

    def train_on_public(
        self, trainer: ServerTrainer, average: Weights, loss: PositionLoss, round: int
    ) -> Trained:
        """Train the average on the public set; the loss takes positions in that set."""
        options = Training(
            epochs=self.server_epochs,
            batch_size=self.server_batch_size,
            lr=self.server_lr,
            momentum=self.server_momentum,
        )
        stopping = Stopping(trainer.accuracy(trainer.public("validation")), self.server_patience)
        return trainer.train(average, loss, trainer.public("train"), options, round, stopping=stopping)


class FineTune(PublicEpochs):
    """Federated averaging, then supervised training of the average on the public set."""

    cost = Cost(server_extra="epochs on public data")
    takes_private = False
    neutral = Neutral({"server_epochs": 0})

    def check(self, context: RoundContext) -> list[str]:
        if self.server_epochs:
            public_trainer(context.trainer, "finetune", labels=True, batch=self.server_batch_size)
        return []

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        average = super().aggregate(server, aggregate, context)
        if not self.server_epochs:
            return average
        trainer = public_trainer(context.trainer, "finetune", labels=True)
        loss = trainer.plain_loss(trainer.public("train"))
        trained = self.train_on_public(trainer, average.weights, loss, context.round)
        return ServerUpdate(trained.weights, average.server, trained.record)
