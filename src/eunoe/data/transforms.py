"""Random crop, flip and cutout of batches of images, with random parameters for each image.

Pixels inside a cut-out square become zero: black for images that have not been normalized, the mean
color for images that have. Pixels beyond the border of a crop are zero too, unless another color is set.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from eunoe.config.options import Augment
from eunoe.core.fields import Input
from eunoe.errors import InputError


def augment_batch(
    x: Input, options: Augment, generator: torch.Generator, border: Tensor | None = None
) -> Input:
    """Augment a batch of images [B, C, H, W], each with its own random parameters, in the same dtype.

    `border` [channels, 1, 1] is the color beyond a crop's border.
    """
    if not options.active:
        return x
    if not isinstance(x, Tensor):
        raise InputError("crop, flip and cutout need images, not inputs of several fields")
    if x.ndim != 4:
        raise InputError(
            f"crop, flip and cutout need images [channels, H, W], not inputs of shape {list(x.shape[1:])}"
        )
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
