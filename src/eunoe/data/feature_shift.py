"""Feature shift: noise, rotation or contrast specific to each client.

It moves no samples, so it combines with any partition, and remedies for label skew cannot fix it. The shift
is the same for all of a client's samples, in training and testing, and depends only on seed and client.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from eunoe.config.options import FeatureShift
from eunoe.core.rng import generator, torch_seed
from eunoe.errors import InputError


class Shift(NamedTuple):
    """One client's shift: its kind and amount, and the seed of its noise pattern."""

    kind: str
    amount: float
    pattern: int = 0

    def apply(self, x: Tensor) -> Tensor:
        """Apply the shift to inputs [B, ...] of a floating type."""
        if self.kind == "noise":
            drawn = torch.Generator().manual_seed(self.pattern)
            pattern = torch.randn(x.shape[1:], generator=drawn, dtype=torch.float32)
            return x + self.amount * pattern.to(x)
        if self.kind == "contrast":
            mean = x.flatten(1).mean(1).view(-1, *[1] * (x.ndim - 1))
            return mean + math.exp(self.amount) * (x - mean)
        return _rotate(x, math.radians(self.amount))


def client_shift(options: FeatureShift, seed: int, client: int) -> Shift:
    """Return the shift of this client."""
    purpose = f"feature shift {options.kind}"
    low = 0.0 if options.kind == "noise" else -options.strength
    amount = generator(seed, purpose, client=client).uniform(low, options.strength)
    return Shift(options.kind, float(amount), torch_seed(seed, purpose + " pattern", client=client))


def _rotate(x: Tensor, angle: float) -> Tensor:
    """Rotate images [B, C, H, W] counter-clockwise."""
    if x.ndim != 4:
        raise InputError(
            f"only images [channels, H, W] can be rotated, not inputs of shape {list(x.shape[1:])}"
        )
    height, width = x.shape[2:]
    sine, cosine = math.sin(angle), math.cos(angle)
    # Coordinates run from -1 to 1 along both sides, so a rotation must account for the aspect ratio.
    turn = torch.tensor([[cosine, -sine * height / width, 0], [sine * width / height, cosine, 0]]).to(x)
    grid = affine_grid(turn.expand(len(x), 2, 3), list(x.shape), align_corners=False)
    return grid_sample(x, grid, align_corners=False)
