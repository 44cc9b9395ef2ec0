"""FedVLS (Guo et al., 2025, "Exploring Vacant Classes in Label-Skewed Federated Learning",
https://arxiv.org/abs/2401.02329).

    loss = L(z, y) + lambda KL( softmax(zg') || softmax(z') )
           + beta sum_c p_c log( 1/B sum_i exp( [y_i != c] (z_ic - log(C p_c)) ) )

    L        the chosen loss; the paper's is `loss = "logit_adjusted"`
    z, zg    logits of the client and of the model it received, which is frozen
    '        vacant classes alone, those of which the client has no sample
    p_c      share of class c in the client's training labels
    B, C     samples of the batch, classes
    lambda   distillation   weight of what the received model says of vacant classes
    beta     suppression    weight of the suppression of logits of classes that are not the label

The last term is the one of the authors' code, where a sample's own class counts as a logit of 0 and beta is
fixed at 0.005; it is computed over a batch. A vacant class has no share in it. Taking logits out is giving
them -inf before the softmax. With no vacant class, or a single one, there is nothing to distill.
"""

import math

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from eunoe.methods.base import Method, Neutral
from eunoe.methods.client_context import Batch, ClientContext
from eunoe.server.cost import Cost


class FedVLS(Method):
    """FedVLS: what the received model says of classes a client lacks is kept, other logits are suppressed."""

    distillation: float = Field(
        0.1, ge=0, allow_inf_nan=False, description="Weight of the distillation of vacant classes."
    )
    suppression: float = Field(
        0.005, ge=0, allow_inf_nan=False, description="Weight of the suppression of wrong classes' logits."
    )

    cost = Cost(client_compute="+ 1 forward a step (a round if un-augmented)")
    neutral = Neutral({"distillation": 0.0, "suppression": 0.0})

    def begin(self, client: ClientContext) -> None:
        client.freeze("received", client.start)

    def loss(self, client: ClientContext, batch: Batch) -> Tensor:
        logits = client.forward(batch.x)
        kept = vacant_divergence(client.frozen("received", batch), logits, client.counts == 0)
        wrong = wrong_logits(logits, batch.y, client.counts, batch.mask)
        return client.criterion(logits, batch.y) + self.distillation * kept + self.suppression * wrong


def vacant_divergence(teacher: Tensor, student: Tensor, vacant: Tensor) -> Tensor:
    """The divergence over the vacant classes, each side's probabilities made to sum to 1; 0 without any."""
    some = vacant.any()
    # Without any, all stay in, since a softmax over nothing has no gradient.
    out = ~vacant & some
    p = F.log_softmax(teacher.masked_fill(out, -torch.inf), -1)
    q = F.log_softmax(student.masked_fill(out, -torch.inf), -1)
    return torch.where(some, (p.exp() * (p - q).masked_fill(out, 0.0)).sum(-1), 0.0)


def wrong_logits(logits: Tensor, labels: Tensor, counts: Tensor, mask: Tensor | None = None) -> Tensor:
    """How large logits [B, C] are where they are not the label's; one number for the batch."""
    classes, shares = logits.shape[-1], counts / counts.sum()
    shift = torch.where(counts > 0, shares, 1.0).log() + math.log(classes)
    wrong = torch.arange(classes, device=logits.device) != labels[:, None]
    spread, size = torch.where(wrong, logits - shift, 0.0), torch.full_like(shares[0], len(labels))
    if mask is not None:
        spread, size = spread.masked_fill(~mask[:, None], -torch.inf), mask.sum().to(shares)
    return (shares * (spread.logsumexp(0) - size.log())).sum()
