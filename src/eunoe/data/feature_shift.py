"""Clients whose inputs look different: noise, rotation or contrast of each client's own.

It moves no samples, so it goes on top of any partition: a difference between clients that remedies
for uneven labels cannot cure. The change is the same for all of a client's samples, whether it
trains or is tested on them, and follows from the seed and the client alone.
"""

import math
from typing import Literal, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from eunoe.config.options import Options
from eunoe.core.rng import generator, torch_seed
from eunoe.errors import InputError


class Shift(NamedTuple):
    """One client's change: how much, and the seed of its noise pattern."""

    amount: float
    pattern: int


class FeatureShift(Options):
    """A change of inputs, drawn for each client.

    - noise: a fixed pattern of Gaussian noise, as of one camera's sensor, is added to each input; its
      standard deviation is uniform from 0 to strength.
    - rotation: images turn by an angle uniform from -strength to strength, in degrees; corners that come
      from outside are zero.
    - contrast: each input moves away from its own mean, or toward it, by a factor e^u with u uniform
      from -strength to strength.
    """

    kind: Literal["noise", "rotation", "contrast"] = Field(description="what differs between clients")
    strength: float = Field(gt=0, le=180, description="how much, in the unit of the kind")

    @model_validator(mode="after")
    def _finite(self) -> "FeatureShift":
        if self.kind == "contrast" and self.strength > 10:
            raise ValueError("contrast changes by a factor e^strength; a strength of at most 10 makes sense")
        return self

    def parameters(self, seed: int, client: int) -> Shift:
        """The change of this client."""
        purpose = f"feature shift {self.kind}"
        low = 0.0 if self.kind == "noise" else -self.strength
        amount = generator(seed, purpose, client=client).uniform(low, self.strength)
        return Shift(float(amount), torch_seed(seed, purpose + " pattern", client=client))

    def apply(self, x: Tensor, parameters: Shift) -> Tensor:
        """The client's inputs [B, ...], of a floating type, as the client sees them."""
        if self.kind == "noise":
            drawn = torch.Generator().manual_seed(parameters.pattern)
            pattern = torch.randn(x.shape[1:], generator=drawn, dtype=torch.float32)
            return x + parameters.amount * pattern.to(x)
        if self.kind == "contrast":
            mean = x.flatten(1).mean(1).view(-1, *[1] * (x.ndim - 1))
            return mean + math.exp(parameters.amount) * (x - mean)
        return _rotate(x, math.radians(parameters.amount))


def _rotate(x: Tensor, angle: float) -> Tensor:
    """Images [B, channels, H, W] turned by an angle, counter-clockwise."""
    if x.ndim != 4:
        raise InputError(f"only images [channels, H, W] can be rotated, not samples {tuple(x.shape[1:])}")
    height, width = x.shape[2:]
    sine, cosine = math.sin(angle), math.cos(angle)
    # Coordinates run from -1 to 1 along both sides, so a turn must know how long the sides are.
    turn = torch.tensor([[cosine, -sine * height / width, 0], [sine * width / height, cosine, 0]]).to(x)
    grid = affine_grid(turn.expand(len(x), 2, 3), list(x.shape), align_corners=False)
    return grid_sample(x, grid, align_corners=False)
