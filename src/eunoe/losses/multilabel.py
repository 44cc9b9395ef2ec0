"""Binary cross-entropy, the loss of multilabel tasks.

loss = mean over labels c of  -y_c log s(z_c) - (1 - y_c) log(1 - s(z_c)),  s the logistic function
"""

from torch import Tensor

from eunoe.core.tasks import MULTILABEL
from eunoe.losses.base import Loss


class BinaryCrossEntropy(Loss, frozen=True):
    """Binary cross-entropy of each label, averaged over the labels."""

    tasks = ("multilabel",)

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        return MULTILABEL.losses(logits, labels)

    def learns_from(self, counts: Tensor) -> bool:
        return True
