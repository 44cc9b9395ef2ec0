"""Losses of other tasks than classification, averaged over the labels or outputs.

bce     -y log s(z) - (1 - y) log(1 - s(z)), with s the logistic function
next    -log softmax(z)_y of each next token y, averaged over the tokens of a block
mse     (z - y)^2, with targets y standardized by the training part
huber   (z - y)^2 up to |z - y| = delta, 2 delta |z - y| - delta^2 beyond: outliers have less influence
"""

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from eunoe.core.tasks import LANGUAGE_MODEL, MULTILABEL, Regression, Task
from eunoe.losses.base import Loss

_TASKS: dict[str, Task] = {task.name: task for task in (MULTILABEL, LANGUAGE_MODEL, Regression())}


class _TaskLoss(Loss, frozen=True):
    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        return _TASKS[self.tasks[0]].losses(logits, labels)


class BinaryCrossEntropy(_TaskLoss, frozen=True):
    """Binary cross-entropy of each label, averaged over the labels."""

    tasks = ("multilabel",)


class NextToken(_TaskLoss, frozen=True):
    """Cross-entropy of the next token, averaged over the tokens of a block."""

    tasks = ("language_model",)


class MeanSquaredError(_TaskLoss, frozen=True):
    """Mean squared error."""

    tasks = ("regression",)


class Huber(MeanSquaredError, frozen=True):
    """Squared error up to a distance, and a line beyond it."""

    delta: float = Field(1.0, gt=0, le=1e6, description="Where the line starts, in standard deviations.")

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        distances = F.huber_loss(logits, labels.to(logits.dtype), reduction="none", delta=self.delta)
        return 2 * distances.mean(1)
