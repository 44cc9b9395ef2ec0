"""One optimizer step on a flat vector of parameters, or on a matrix with a row per client."""

import torch
from torch import Tensor

from eunoe.config.options import Training


def descend(
    weights: Tensor,
    gradient: Tensor,
    options: Training,
    lr: float | Tensor,
    weight_decay: float | Tensor,
    moments: dict[str, Tensor],
    step: int,
) -> None:
    """Clip the gradient (weight decay included, except for adamw) and take a step in place.

    `step` counts from 1; the optimizer's state is kept in `moments`, empty before the first step. Rows of a
    matrix may have their own learning rates and weight decays, as columns.
    """
    if options.clip is not None:
        norm = torch.linalg.vector_norm(gradient, dim=-1, keepdim=True)
        gradient = gradient * (options.clip / (norm + 1e-12)).clamp(max=1.0)
    if options.optimizer == "sgd":
        if options.momentum:
            gradient = _moment(moments, "momentum", weights).mul_(options.momentum).add_(gradient)
        add_scaled(weights, gradient, -lr)
        return
    if options.optimizer == "adamw":
        weights.mul_(1 - lr * weight_decay)
    first = _moment(moments, "first", weights).lerp_(gradient, 0.1)
    second = _moment(moments, "second", weights).mul_(0.999).addcmul_(gradient, gradient, value=0.001)
    scale = (1 - 0.999**step) ** 0.5
    rate, root = -lr * scale / (1 - 0.9**step), second.sqrt().add_(1e-8 * scale)
    if isinstance(rate, Tensor):
        weights.add_(first / root * rate)
    else:
        weights.addcdiv_(first, root, value=rate)


def add_scaled(vector: Tensor, other: Tensor, factor: float | Tensor) -> Tensor:
    """Add `factor` times another vector in place; the factor is a tensor where it differs between clients."""
    if isinstance(factor, Tensor):
        return vector.add_(other * factor)
    return vector.add_(other, alpha=factor)


def _moment(moments: dict[str, Tensor], name: str, weights: Tensor) -> Tensor:
    if name not in moments:
        moments[name] = torch.zeros_like(weights)
    return moments[name]
