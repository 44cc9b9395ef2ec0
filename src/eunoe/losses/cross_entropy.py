"""Cross-entropy, the loss of federated averaging.

loss = w_y (-z_y + log sum_c exp(z_c))

    class_weights   none       w = 1
                    balanced   w_c = (n + C) / (C (n_c + 1)), from the client's own label counts n_c

The counts are smoothed by one sample per class, so that a class with few samples gets no extreme weight. A
client with a single class has a weight of about 1 / C.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from eunoe.losses.base import Loss, check_counts


class CrossEntropy(Loss, frozen=True):
    """Cross-entropy over all classes."""

    class_weights: Literal["none", "balanced"] = Field(
        "none", description="Weigh samples by their class; balanced: inversely to the client's label counts."
    )

    def terms(self, counts: Tensor) -> Tensor:
        if self.class_weights == "none":
            return torch.zeros_like(check_counts(counts))
        smoothed = check_counts(counts) + 1
        return smoothed.mean(-1, keepdim=True) / smoothed

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        losses = F.cross_entropy(logits, labels, reduction="none")
        return losses if self.class_weights == "none" else losses * terms[labels]
