"""Truncated cross-entropy ("Reducing Forgetting in Federated Learning with Truncated Cross-Entropy").
https://openreview.net/forum?id=nd8Z_Xbdrfx

    loss = -z_y + log sum over the client's classes c of exp(z_c)

The classes are those of the client's training data, not those of the batch.
"""

import torch
from torch import Tensor

from eunoe.losses.base import Loss, check_counts, exclude_absent


class TCE(Loss, frozen=True):
    """Truncated cross-entropy: the softmax is over the client's own classes."""

    def terms(self, counts: Tensor) -> Tensor:
        return exclude_absent(torch.zeros_like(check_counts(counts)), counts)
