"""Training of the averaged model on the labeled public set, shared by Flashback and fine-tuning.

SGD with momentum, until the public validation accuracy has not risen for `server_patience` epochs; the best
epoch is kept. A rule on the loss would always keep the average: under distillation the loss first rises.
"""

from pydantic import Field

from eunoe.config.options import Finite, Steps, Training
from eunoe.methods import Method, Weights
from eunoe.server.trainer import PositionLoss, ServerTrainer, Stopping, Trained


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
