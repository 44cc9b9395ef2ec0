"""FedVLS (Guo et al., 2025, "Exploring Vacant Classes in Label-Skewed Federated Learning").
https://arxiv.org/abs/2401.02329

    loss = L(z, y) + lambda KL( softmax(zg') || softmax(z') )
           + beta sum_c p_c log( 1/B sum_i exp( [y_i != c] (z_ic - log(C p_c)) ) )

    L        the chosen loss (in the paper `loss = "logit_adjusted"`)
    z, zg    logits of the client and of the model it received, which is frozen
    '        only the vacant classes, those without a sample at the client
    p_c      share of class c in the client's training labels
    B, C     batch size, number of classes
    lambda   distillation   weight of the vacant-class distillation
    beta     suppression    weight of the logit suppression

The suppression has the form of the authors' code, where a sample's own class counts as a logit of 0 and beta
is 0.005; it is computed over the batch, and vacant classes have no share in it. Logits are removed by setting
them to -inf before the softmax. With fewer than two vacant classes the distillation is 0.
"""

import math

import torch
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Finite
from eunoe.core.tasks import CLASSES
from eunoe.losses.distillation import divergence_without
from eunoe.methods import Batch, ClientContext, Cost, Method, Neutral


class FedVLS(Method):
    """FedVLS: distills the global model's outputs for vacant classes and suppresses non-label logits."""

    distillation: Finite = Field(0.1, ge=0, description="Weight of the vacant-class distillation.")
    suppression: Finite = Field(0.005, ge=0, description="Weight of the logit suppression.")

    cost = Cost(client_compute="+ 1 forward a step (a round if un-augmented)")
    tasks = CLASSES
    neutral = Neutral({"distillation": 0.0, "suppression": 0.0})

    def begin(self, client: ClientContext) -> None:
        client.freeze("received", client.start)

    def loss(self, client: ClientContext, batch: Batch) -> Tensor:
        logits = client.forward(batch.x)
        distilled = vacant_divergence(client.frozen("received", batch), logits, client.counts == 0)
        suppressed = non_label_logits(logits, batch.y, client.counts, batch.mask)
        plain = client.criterion(logits, batch.y)
        return plain + self.distillation * distilled + self.suppression * suppressed


def vacant_divergence(teacher: Tensor, student: Tensor, vacant: Tensor) -> Tensor:
    """Return the KL divergence over the vacant classes, renormalized; 0 without vacant classes."""
    any_vacant = vacant.any()
    # Without vacant classes none is removed, since the softmax of nothing is not a number.
    return torch.where(any_vacant, divergence_without(teacher, student, ~vacant & any_vacant), 0.0)


def non_label_logits(logits: Tensor, labels: Tensor, counts: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the mean over classes, weighted by share, of the batch's non-label log-sum-exp; one number."""
    classes, shares = logits.shape[-1], counts / counts.sum()
    shift = torch.where(counts > 0, shares, 1.0).log() + math.log(classes)
    other = torch.arange(classes, device=logits.device) != labels[:, None]
    spread, size = torch.where(other, logits - shift, 0.0), torch.full_like(shares[0], len(labels))
    if mask is not None:
        spread, size = spread.masked_fill(~mask[:, None], -torch.inf), mask.sum().to(shares)
    return (shares * (spread.logsumexp(0) - size.log())).sum()
