"""Transforms of model inputs: random augmentation in training, and the feature shift of each client.

Pixels in a cut-out square become zero: the mean color if images are normalized. A feature shift is the same
for all of a client's samples, in training and testing, and combines with any partition.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, pad

from eunoe.config.options import Augment, FeatureShift
from eunoe.core import rng
from eunoe.core.fields import Input
from eunoe.errors import InputError


def augment_batch(
    x: Input, options: Augment, generator: torch.Generator, border: Tensor | None = None
) -> Input:
    """Augment images [B, C, H, W], each with random parameters; `border` is the color beyond a crop."""
    if not options.active:
        return x
    if not isinstance(x, Tensor):
        raise InputError("crop, flip and cutout need images, not inputs of several fields")
    if x.ndim != 4:
        raise InputError(f"crop, flip and cutout need images [C, H, W], not inputs {list(x.shape[1:])}")
    if options.crop_padding or options.flip:
        x = _crop_and_flip(x, options.crop_padding, options.flip, generator, border)
    return _cut_out(x, options.cutout, generator) if options.cutout else x


def _crop_and_flip(
    x: Tensor, padding: int, flip: bool, generator: torch.Generator, border: Tensor | None
) -> Tensor:
    images, channels, height, width = x.shape
    top, left = torch.randint(2 * padding + 1, (2, images, 1), generator=generator)
    rows, columns = top + torch.arange(height), left + torch.arange(width)
    if flip:
        mirrored = torch.randint(2, (images, 1), generator=generator, dtype=torch.bool)
        columns = torch.where(mirrored, columns.flip(1), columns)
    # One gather of pixels does both, and costs less than two copies.
    pixels = rows[:, :, None] * (width + 2 * padding) + columns[:, None, :]
    pixels = pixels.reshape(images, 1, -1).expand(-1, channels, -1)
    padded = pad(x, (padding,) * 4)
    if padding and border is not None:
        padded = border.to(x).expand(padded.shape).clone()
        padded[:, :, padding:-padding, padding:-padding] = x
    return padded.flatten(2).gather(2, pixels.to(x.device)).view(x.shape)


def _cut_out(x: Tensor, side: int, generator: torch.Generator) -> Tensor:
    inside = []
    for length in x.shape[2:]:
        first = torch.randint(length, (len(x), 1), generator=generator) - side // 2
        place = torch.arange(length)
        inside.append((place >= first) & (place < first + side))
    square = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    return x.masked_fill(square.to(x.device), 0)


def shift_inputs(x: Tensor, options: FeatureShift, seed: int, client: int) -> Tensor:
    """Apply this client's shift to inputs [B, ...] of a floating type."""
    purpose = f"feature shift {options.kind}"
    low = 0.0 if options.kind == "noise" else -options.strength
    amount = float(rng.generator(seed, purpose, client=client).uniform(low, options.strength))
    if options.kind == "noise":
        noise = rng.torch_generator(seed, f"{purpose} pattern", client=client)
        pattern = torch.randn(x.shape[1:], generator=noise, dtype=torch.float32)
        return x + amount * pattern.to(x)
    if options.kind == "contrast":
        mean = x.flatten(1).mean(1).view(-1, *[1] * (x.ndim - 1))
        return mean + math.exp(amount) * (x - mean)
    return _rotate(x, math.radians(amount))


def _rotate(x: Tensor, angle: float) -> Tensor:
    """Rotate images [B, C, H, W] counter-clockwise."""
    if x.ndim != 4:
        raise InputError(f"only images [C, H, W] can be rotated, not inputs {list(x.shape[1:])}")
    height, width = x.shape[2:]
    sine, cosine = math.sin(angle), math.cos(angle)
    # Coordinates run from -1 to 1 along both sides, so a rotation must account for the aspect ratio.
    rotation = torch.tensor([[cosine, -sine * height / width, 0], [sine * width / height, cosine, 0]]).to(x)
    grid = affine_grid(rotation.expand(len(x), 2, 3), list(x.shape), align_corners=False)
    return grid_sample(x, grid, align_corners=False)
