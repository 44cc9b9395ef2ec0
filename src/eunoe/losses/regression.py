"""Losses for regression, on targets that are standardized by the training part; averaged over the outputs.

mse     (z - y)^2
huber   (z - y)^2 up to |z - y| = delta, 2 delta |z - y| - delta^2 beyond: single far targets pull less
"""

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from eunoe.core.tasks import Regression
from eunoe.losses.base import Loss


class MeanSquaredError(Loss, frozen=True):
    """Mean squared error."""

    tasks = ("regression",)

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        return Regression().losses(logits, labels)

    def learns_from(self, counts: Tensor) -> bool:
        return True


class Huber(MeanSquaredError, frozen=True):
    """Squared error up to a distance, and a line beyond it."""

    delta: float = Field(
        1.0, gt=0, le=1e6, description="Where the line begins, in standard deviations of the target."
    )

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        distances = F.huber_loss(logits, labels.to(logits.dtype), reduction="none", delta=self.delta)
        return 2 * distances.mean(1)
