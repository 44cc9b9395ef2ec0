"""Training of the averaged model on the labeled public set, shared by Flashback and fine-tuning.

SGD with momentum, until the public validation accuracy (not the loss) has not risen for `server_patience`
epochs; the best epoch is kept. The average itself is not a candidate: under distillation the validation loss
first rises, so a rule on the loss that may keep the average would always keep it and learn nothing.
"""

from pydantic import Field

from eunoe.config.options import Finite, Steps, Training
from eunoe.methods import Method, Weights
from eunoe.server.trainer import PositionLoss, ServerTrainer, Stopping, Trained


class PublicEpochs(Method):
    """Base of methods that train the average on the public set."""

    server_epochs: Steps = Field(
        30, ge=0, description="Epochs on the public set in a round, at most; 0 leaves the average as it is."
    )
    server_patience: int = Field(8, ge=1, description="Epochs without a better model after which to stop.")
    server_lr: Finite = Field(0.01, gt=0, description="Learning rate of sgd at the server.")
    server_momentum: Finite = Field(0.9, ge=0, lt=1, description="Momentum of sgd at the server.")
    server_batch_size: Steps = Field(50, ge=1, description="Public samples in a batch.")

    def train_on_public(
        self, trainer: ServerTrainer, average: Weights, loss: PositionLoss, round: int
    ) -> Trained:
        """Return the average after its epochs on the public set; the loss is given positions in that set."""
        options = Training(
            epochs=self.server_epochs,
            batch_size=self.server_batch_size,
            lr=self.server_lr,
            momentum=self.server_momentum,
        )
        stopping = Stopping(trainer.accuracy(trainer.public("validation")), self.server_patience)
        return trainer.train(average, loss, trainer.public("train"), options, round, stopping=stopping)
