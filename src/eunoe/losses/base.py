"""The contract of a loss, and losses for one client in any PyTorch loop.

A loss turns a client's training label counts n_c once into `terms`, one number per class, and then gives one
loss per sample. Most are a softmax over shifted logits, loss = -(z_y + b_y) + log sum_c exp(z_c + b_c):

    ce              b = 0
    tce             b = 0 for the client's classes, -inf for the others
    wsm             b = log(n_c / n)
    balanced        b = log n_c
    logit_adjusted  b = tau * log(n_c / n)
    fedlc           b = -tau * n_c^(-1/4)

`fedrs` scales and `masked` replaces the logits of absent classes instead. A class that a client lacks gets
exactly no gradient wherever b is -inf, so a client with one class has exactly zero loss and gradient there:
training only applies its weight decay, which draws the average toward zero. `Loss.learns_from` detects such
clients, so that they or their decay can be left out. Weight decay also still shrinks the classifier
rows of absent classes. Evaluation uses the raw logits, or `adjust_for_prior` for one client's own model.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.config import registry
from eunoe.config.options import Options
from eunoe.core.tasks import CLASSES, TaskName
from eunoe.errors import InputError

Counts = Tensor | Sequence[float]


class Loss(Options):
    """A loss per sample from logits, labels and one number per class that follows from the label counts.

    A subclass gives `terms`, zeros by default, or `per_sample`, which by default adds them to the logits. For
    other tasks than classification, labels are [B, outputs] and `tasks` says which they are.
    """

    # The tasks that it serves.
    tasks: ClassVar[tuple[TaskName, ...]] = CLASSES

    def terms(self, counts: Tensor) -> Tensor:
        """One number per class from label counts [..., C], in their dtype; once per participation."""
        return torch.zeros_like(counts)

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        """Losses [B] from logits [B, C] and labels [B]; a pure function, so that vmap and grad work."""
        return F.cross_entropy(logits + terms, labels, reduction="none")

    def learns_from(self, counts: Tensor) -> bool:
        """Whether a client with these counts gets any gradient; by default one class alone gives none."""
        return int((counts > 0).sum()) > 1


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
    """Return a loss by name (with its options) or as an object, for any PyTorch loop; mean over the batch."""
    made = registry.build("loss", loss, options) if isinstance(loss, str) else loss
    return ClientLoss(made, _floating(counts))


def adjust_for_prior(logits: Tensor, counts_or_prior: Counts) -> Tensor:
    """Logits plus the log of a client's class shares, for predicting with that client's own prior.

    Take the shares from its training labels; those of the test labels would leak them.
    """
    return logits + log_prior(checked_counts(_floating(counts_or_prior))).to(logits)


def _floating(counts: Counts) -> Tensor:
    given = torch.as_tensor(counts)
    return given if given.is_floating_point() else given.to(torch.get_default_dtype())


def checked_counts(counts: Tensor) -> Tensor:
    """Return the label counts, if they are finite, not negative and not all zero."""
    if not bool(((counts >= 0) & counts.isfinite()).all() & (counts > 0).any(-1).all()):
        raise InputError(f"label counts must be zero or more with at least one sample, not {counts.tolist()}")
    return counts


def log_prior(counts: Tensor) -> Tensor:
    """log(n_c / n), -inf for absent classes."""
    return (counts / counts.sum(-1, keepdim=True)).log()


def without_absent(terms: Tensor, counts: Tensor) -> Tensor:
    """Return the terms with -inf for absent classes, which takes them out of the softmax."""
    return terms.masked_fill(counts == 0, -math.inf)
