"""The base class of losses, and `client_loss` for any PyTorch loop.

A loss computes `terms`, one number per class, once from a client's training label counts n_c, and then the
losses of samples. Most are a softmax over shifted logits, loss = -(z_y + b_y) + log sum_c exp(z_c + b_c):

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
    """Base class of losses.

    Override `terms` (zeros by default), or `per_sample`, which adds them to the logits by default. For tasks
    other than classification, labels are [B, outputs]; declare the tasks in `tasks`.
    """

    # Supported tasks.
    tasks: ClassVar[tuple[TaskName, ...]] = CLASSES

    def terms(self, counts: Tensor) -> Tensor:
        """Return one number per class from label counts [..., C]; called once per participation."""
        return torch.zeros_like(counts)

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        """Return losses [B] from logits [B, C] and labels [B]; must be pure, for vmap and grad."""
        return F.cross_entropy(logits + terms, labels, reduction="none")

    def in_round(self, round: int) -> "Loss":
        """Return the loss of a round; another one only where losses change over the rounds."""
        return self

    def learns_from(self, counts: Tensor) -> bool:
        """Return whether a client gets a gradient: by default, unless its terms exclude all but one class."""
        excluded = torch.isneginf(self.terms(counts.double()))
        return int((~excluded).sum()) > 1 or not bool(excluded.any())


class ClientLoss(nn.Module):
    """Loss module of one client: `loss(logits, labels)` is the mean over the batch."""

    terms: Tensor

    def __init__(self, loss: Loss, counts: Tensor) -> None:
        super().__init__()
        self.loss = loss
        self.register_buffer("terms", loss.terms(counts))
        # Labels whose loss would be infinite.
        self._excluded = bool(torch.isneginf(self.terms).any())

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        classes = len(self.terms)
        if logits.shape[-1] != classes:
            raise InputError(
                f"there are {classes} label counts for {logits.shape[-1]} outputs: pass one per class"
            )
        if self.loss.tasks == CLASSES:
            if labels.ndim != 1 or labels.is_floating_point():
                form = f"{labels.dtype} {list(labels.shape)}"
                raise InputError(f"labels are {form}, not integers [batch]: of one-hot rows pass the argmax")
            if (invalid := labels[(labels < 0) | (labels >= classes)]).numel():
                raise InputError(f"label {int(invalid[0])} is not a class: {classes} are 0..{classes - 1}")
        if self._excluded:
            absent = torch.isneginf(self.terms.to(logits.device)[labels])
            if bool(absent.any()):
                label = int(labels[absent][0])
                raise InputError(f"label {label} has count 0: count all labels that the client trains on")
        return self.loss.per_sample(logits, labels, self.terms.to(logits)).mean()


def client_loss(loss: str | Loss, counts: Counts, **options: Any) -> ClientLoss:
    """Build the loss module of a client from a name and options, or from a `Loss`, for any PyTorch loop."""
    module = registry.build("loss", loss, options) if isinstance(loss, str) else loss
    return ClientLoss(module, _floating(counts))


def adjust_for_prior(logits: Tensor, counts_or_prior: Counts) -> Tensor:
    """Add the log of a client's class shares to logits, to predict with that client's prior.

    Compute the shares from training labels; test labels would leak.
    """
    return logits + log_prior(check_counts(_floating(counts_or_prior))).to(logits)


def _floating(counts: Counts) -> Tensor:
    tensor = torch.as_tensor(counts)
    return tensor if tensor.is_floating_point() else tensor.to(torch.get_default_dtype())


def check_counts(counts: Tensor) -> Tensor:
    """Return the label counts; raise InputError unless they are finite, nonnegative and not all zero."""
    least, totals = float(counts.min()), torch.aminmax(counts.sum(-1))
    if not (least >= 0 and float(totals.min) > 0 and float(totals.max) < math.inf):
        raise InputError(f"label counts must be zero or more with at least one sample, not {counts.tolist()}")
    return counts


def log_prior(counts: Tensor) -> Tensor:
    """Return log(n_c / n); -inf for absent classes."""
    return (counts / counts.sum(-1, keepdim=True)).log()


def exclude_absent(terms: Tensor, counts: Tensor) -> Tensor:
    """Set the terms of absent classes to -inf, which excludes them from the softmax."""
    return terms.masked_fill(counts == 0, -math.inf)
