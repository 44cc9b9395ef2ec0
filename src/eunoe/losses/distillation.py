"""Distillation losses per sample, from the logits of teachers and student; usable under vmap."""

import torch
from torch import Tensor
from torch.nn import functional as F


def weigh_teachers(student: Tensor, teachers: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights of a student [C] and teachers [T, C] per class, by label counts; they sum to 1."""
    # A class that no client has seen has student weight 1.
    total = student + teachers.sum(0)
    weights = torch.where(total > 0, teachers / torch.where(total > 0, total, 1.0), 0.0)
    return 1 - weights.sum(0), weights


def divergence(
    teacher: Tensor, student: Tensor, temperature: float = 1.0, weights: Tensor | None = None
) -> Tensor:
    """Return sum_c a[c] p[c] log(p[c] / q[c]) of teacher p and student q, with optional class weights a.

    It can be negative if the weights differ by class.
    """
    p = F.log_softmax(teacher / temperature, -1)
    q = F.log_softmax(student / temperature, -1)
    parts = p.exp() * (p - q)
    return (parts if weights is None else weights * parts).sum(-1)


def not_true_divergence(teacher: Tensor, student: Tensor, labels: Tensor, temperature: float = 1.0) -> Tensor:
    """Return the KL divergence over all classes but the label, with renormalized probabilities."""
    true = torch.arange(student.shape[-1], device=student.device) == labels[..., None]
    return divergence_without(teacher / temperature, student / temperature, true)


def divergence_without(teacher: Tensor, student: Tensor, out: Tensor) -> Tensor:
    """Return the KL divergence without the classes in this mask, with renormalized probabilities."""
    p = F.log_softmax(teacher.masked_fill(out, -torch.inf), -1)
    q = F.log_softmax(student.masked_fill(out, -torch.inf), -1)
    return (p.exp() * (p - q).masked_fill(out, 0.0)).sum(-1)
