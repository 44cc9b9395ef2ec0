"""Masked cross-entropy, from HeteroFL (Diao et al., 2021, "HeteroFL: Computation and Communication Efficient
Federated Learning for Heterogeneous Clients"). https://arxiv.org/abs/2010.01264

    loss = -z'_y + log sum_c exp(z'_c)      z'_c = z_c for the client's classes, 0 or -inf for the others

Zeros (HeteroFL) leave a constant in the denominator, so present logits are pushed up against it and a client
with one class still learns; minus infinity is tce. HeteroFL's averaging by label is method `labelwise`.
"""

from typing import Literal

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from eunoe.losses.base import Loss, check_counts
from eunoe.losses.tce import TCE


class Masked(Loss, frozen=True):
    """HeteroFL's masked cross-entropy, which replaces the logits of absent classes."""

    mask_value: Literal["zero", "minus_infinity"] = Field("zero", description="Value of absent logits.")

    def terms(self, counts: Tensor) -> Tensor:
        if self.mask_value == "zero":
            return (check_counts(counts) > 0).to(counts.dtype)
        return TCE().terms(counts)

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        replaced = logits * terms if self.mask_value == "zero" else logits + terms
        return F.cross_entropy(replaced, labels, reduction="none")
