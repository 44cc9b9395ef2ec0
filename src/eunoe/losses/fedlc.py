"""FedLC (Zhang et al., 2022, "Federated Learning with Label Distribution Skew via Logits Calibration").
https://arxiv.org/abs/2209.00189

    loss = -(z_y - tau n_y^(-1/4)) + log sum_c exp(z_c - tau n_c^(-1/4))

    tau   tau   strength of the margins, which grow as a class gets rarer at the client

Departure: the paper's denominator leaves out the true class (`exclude_true`), which makes the loss unbounded
below and training collapse; the default is the full softmax. A client with one class gets zero from either.
"""

import math

import torch
from pydantic import Field
from torch import Tensor

from eunoe.losses.base import Loss, check_counts, exclude_absent


class FedLC(Loss, frozen=True):
    """FedLC: calibrated logits, with larger margins for classes that are rarer at the client."""

    tau: float = Field(1.0, ge=0, le=1e6, description="Strength of the margins; 0: tce, or ce without mask.")
    exclude_true: bool = Field(False, description="Exclude the true class from the denominator (paper).")
    mask_absent: bool = Field(True, description="Mask absent classes; if not, they count as one sample.")

    def terms(self, counts: Tensor) -> Tensor:
        margins = -self.tau * check_counts(counts).clamp(min=1).pow(-0.25)
        return exclude_absent(margins, counts) if self.mask_absent else margins

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        if not self.exclude_true:
            return super().per_sample(logits, labels, terms)
        shifted, column = logits + terms, labels.unsqueeze(-1)
        rivals = shifted.scatter(-1, column, -math.inf)
        # With no rival at all, log sum would be -inf with an undefined gradient: such a client gets zero.
        alone = terms.isfinite().sum(-1, keepdim=True) < 2
        margin = torch.where(alone, 0, rivals).logsumexp(-1) - shifted.gather(-1, column).squeeze(-1)
        return torch.where(alone, 0, margin)
