"""What a client minimizes on its own labels: cross-entropy and its remedies for classes a client lacks.

Each loss turns a client's training label counts n_c once into `terms`, one number per class, and then gives
one loss per sample. Most are a softmax over shifted logits, loss = -(z_y + b_y) + log sum_c exp(z_c + b_c):

    ce              b = 0
    tce             b = 0 for the client's classes, -inf for the others
    wsm             b = log(n_c / n)
    balanced        b = log n_c
    logit_adjusted  b = tau * log(n_c / n)
    fedlc           b = -tau * n_c^(-1/4)

`fedrs` scales and `masked` replaces the logits of absent classes instead. A class that a client lacks gets
exactly no gradient wherever b is -inf, so a client with one class has exactly zero loss and gradient there:
training only applies its weight decay, which draws the average toward zero. `Loss.learns_from` tells such
clients apart, so that they or their decay can be left out. Weight decay also still shrinks the classifier
rows of absent classes. Test time uses the raw logits, or `adjust_for_prior` for one client's own model.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.config import registry
from eunoe.config.options import Options
from eunoe.errors import InputError

Counts = Tensor | Sequence[float]


class Loss(Options, ABC):
    """One loss per sample, from logits, labels and what the client's label counts say."""

    @abstractmethod
    def terms(self, counts: Tensor) -> Tensor:
        """One number per class from training label counts [..., C], in their type; once a participation."""

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        """The losses [B] of logits [B, C] and labels [B]; pure, so that vmap and grad work."""
        return F.cross_entropy(logits + terms, labels, reduction="none")

    def learns_from(self, counts: Tensor) -> bool:
        """Whether a client with these counts gets any gradient: not if it has one class to tell from none."""
        return int((counts > 0).sum()) > 1


class CrossEntropy(Loss, frozen=True):
    """Cross-entropy over all classes."""

    def terms(self, counts: Tensor) -> Tensor:
        return torch.zeros_like(_checked(counts))

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, reduction="none")

    def learns_from(self, counts: Tensor) -> bool:
        return True


class TCE(Loss, frozen=True):
    """Truncated cross-entropy: the softmax is over the client's own classes (not the batch's)."""

    def terms(self, counts: Tensor) -> Tensor:
        return _without_absent(torch.zeros_like(_checked(counts)), counts)


class WSM(Loss, frozen=True):
    """Re-weighted softmax: classes count in the softmax by their share of the client's labels.

    The share is in the numerator too (as in the authors' code), which adds the constant -log(share of y) to
    the paper's equation 4 and leaves the gradient as it is; uniform shares give cross-entropy itself.
    """

    def terms(self, counts: Tensor) -> Tensor:
        return _log_prior(_checked(counts))


class Balanced(Loss, frozen=True):
    """Balanced softmax: logits shifted by the log of the class counts; the same loss and gradient as wsm."""

    def terms(self, counts: Tensor) -> Tensor:
        return _checked(counts).log()


class LogitAdjusted(Loss, frozen=True):
    """Logit adjustment: wsm with a strength; absent classes are left out at every strength."""

    tau: float = Field(1.0, ge=0, description="Strength of the prior: 1 is wsm, 0 is tce.")

    def terms(self, counts: Tensor) -> Tensor:
        return _without_absent(self.tau * _log_prior(_checked(counts)), counts)


class FedLC(Loss, frozen=True):
    """FedLC: calibrated logits, with a margin that grows as a class gets rarer at the client.

    The paper's denominator leaves out the true class, which makes the loss unbounded below and training
    collapse; the default is the full softmax. A client with one class gets zero from either form.
    """

    tau: float = Field(
        1.0, ge=0, description="Strength of the margins: 0 is tce, or ce if nothing is masked."
    )
    exclude_true: bool = Field(
        False, description="Leave the true class out of the denominator, as the paper has it."
    )
    mask_absent: bool = Field(
        True, description="Leave absent classes out; if not, their margin is that of a class with one sample."
    )

    def terms(self, counts: Tensor) -> Tensor:
        margins = -self.tau * _checked(counts).clamp(min=1).pow(-0.25)
        return _without_absent(margins, counts) if self.mask_absent else margins

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        if not self.exclude_true:
            return super().per_sample(logits, labels, terms)
        shifted, column = logits + terms, labels.unsqueeze(-1)
        rivals = shifted.scatter(-1, column, -math.inf)
        # With no rival at all, log sum would be -inf with an undefined gradient: such a client gets zero.
        alone = terms.isfinite().sum(-1, keepdim=True) < 2
        margin = torch.where(alone, 0, rivals).logsumexp(-1) - shifted.gather(-1, column).squeeze(-1)
        return torch.where(alone, 0, margin)

    def learns_from(self, counts: Tensor) -> bool:
        return not self.mask_absent or super().learns_from(counts)


class FedRS(Loss, frozen=True):
    """FedRS: restricted softmax, the logits of classes the client lacks are scaled down.

    The paper scales w_c . h of a classifier without bias; here the whole logit is scaled, so that it goes
    with any model. `model.classifier_bias = false` makes the two the same.
    """

    alpha: float = Field(
        0.5, ge=0, le=1, description="Scale of an absent class: 1 is ce, 0 is masked by zeros."
    )
    graded: bool = Field(
        False,
        description="Scale by alpha + (1 - alpha) n_c / max n, as the authors' code does, also if present.",
    )

    def terms(self, counts: Tensor) -> Tensor:
        counts = _checked(counts)
        share = counts / counts.amax(-1, keepdim=True) if self.graded else (counts > 0).to(counts.dtype)
        return self.alpha + (1 - self.alpha) * share

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        return F.cross_entropy(logits * terms, labels, reduction="none")

    def learns_from(self, counts: Tensor) -> bool:
        return True


class Masked(Loss, frozen=True):
    """HeteroFL's masked cross-entropy: the logits of classes the client lacks are replaced.

    Zeros (HeteroFL) leave a constant in the denominator, so present logits are pushed up against it and a
    client with one class still learns; minus infinity is tce.
    """

    mask_value: Literal["zero", "minus_infinity"] = Field(
        "zero", description="What the logits of absent classes are replaced by."
    )

    def terms(self, counts: Tensor) -> Tensor:
        if self.mask_value == "zero":
            return (_checked(counts) > 0).to(counts.dtype)
        return TCE().terms(counts)

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        replaced = logits * terms if self.mask_value == "zero" else logits + terms
        return F.cross_entropy(replaced, labels, reduction="none")

    def learns_from(self, counts: Tensor) -> bool:
        return self.mask_value == "zero" or super().learns_from(counts)


class ClientLoss(nn.Module):
    """A loss with one client's label counts, called as `(logits, labels)`, averaged over the batch."""

    terms: Tensor

    def __init__(self, loss: Loss, counts: Tensor) -> None:
        super().__init__()
        self.loss = loss
        self.register_buffer("terms", loss.terms(counts))

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.loss.per_sample(logits, labels, self.terms.to(logits)).mean()


def client_loss(loss: str | Loss, counts: Counts, **options: Any) -> ClientLoss:
    """A loss by name (with its options) or as an object, for any PyTorch loop; mean over the batch."""
    made = registry.build("loss", loss, options) if isinstance(loss, str) else loss
    return ClientLoss(made, _floating(counts))


def adjust_for_prior(logits: Tensor, counts_or_prior: Counts) -> Tensor:
    """Logits plus the log of a client's class shares, for predicting with that client's own prior.

    Take the shares from its training labels; those of the test labels would leak them.
    """
    return logits + _log_prior(_checked(_floating(counts_or_prior))).to(logits)


def _floating(counts: Counts) -> Tensor:
    given = torch.as_tensor(counts)
    return given if given.is_floating_point() else given.to(torch.get_default_dtype())


def _checked(counts: Tensor) -> Tensor:
    if not bool(((counts >= 0) & counts.isfinite()).all() & (counts > 0).any(-1).all()):
        raise InputError(f"label counts must be zero or more with at least one sample, not {counts.tolist()}")
    return counts


def _log_prior(counts: Tensor) -> Tensor:
    return (counts / counts.sum(-1, keepdim=True)).log()


def _without_absent(terms: Tensor, counts: Tensor) -> Tensor:
    return terms.masked_fill(counts == 0, -math.inf)
