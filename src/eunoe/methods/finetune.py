"""FedAvg with fine-tuning on the public set: the naive baseline of the Flashback paper (figure 6).

    w  <-  sum_k p_k y_k                                 as in FedAvg
    w  <-  w trained on the labeled public set by cross-entropy

It shows how much of a method's gain comes from the public labels alone. The paper says only that the model is
fine-tuned after each aggregation; here the training is Flashback's, with another loss.

    symbol                     argument
    E_s (at most), patience      server_epochs (0: plain FedAvg), server_patience
    eta, B at the server       server_lr, server_momentum, server_batch_size
"""

from eunoe.methods import Aggregate, Cost, Neutral, RoundContext, ServerUpdate, Vectors
from eunoe.methods.public_epochs import PublicEpochs
from eunoe.server.trainer import public_trainer


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
