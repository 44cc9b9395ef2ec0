"""How far a student's outputs are from a teacher's, for each sample, from logits.

Pure and without branches on values, so they work on many clients at once.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def trust(student: Tensor, teachers: Tensor) -> tuple[Tensor, Tensor]:
    """How much a student [C] and teachers [T, C] count in each class, from how much each has seen of it.

    The weights of a class sum to 1; a class that no client has seen is left to the student.
    """
    total = student + teachers.sum(0)
    weights = torch.where(total > 0, teachers / torch.where(total > 0, total, 1.0), 0.0)
    return 1 - weights.sum(0), weights


def divergence(
    teacher: Tensor, student: Tensor, temperature: float = 1.0, weights: Tensor | None = None
) -> Tensor:
    """sum_c a[c] p[c] log(p[c] / q[c]) of teacher p and student q, with a weight a per class if given.

    Weights that differ by class make it no divergence in the strict sense: it can be negative.
    """
    p = F.log_softmax(teacher / temperature, -1)
    q = F.log_softmax(student / temperature, -1)
    parts = p.exp() * (p - q)
    return (parts if weights is None else weights * parts).sum(-1)


def not_true_divergence(teacher: Tensor, student: Tensor, labels: Tensor, temperature: float = 1.0) -> Tensor:
    """The divergence over the classes that are not the label, each side's probabilities made to sum to 1."""
    true = torch.arange(student.shape[-1], device=student.device) == labels[..., None]
    p = F.log_softmax((teacher / temperature).masked_fill(true, -torch.inf), -1)
    q = F.log_softmax((student / temperature).masked_fill(true, -torch.inf), -1)
    return (p.exp() * (p - q).masked_fill(true, 0.0)).sum(-1)
