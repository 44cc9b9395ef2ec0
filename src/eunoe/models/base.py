"""The base class of networks (features, then a classifier), and helpers for convolutions."""

from abc import ABC, abstractmethod
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError

# The width of a layer; a larger one is a mistake that would exhaust the memory.
Width = Annotated[int, Field(gt=0, le=65_536)]


class Classifier(nn.Module, ABC):
    """A network whose logits are `classifier(features(x))`."""

    classifier: nn.Module

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """Return the inputs of the classifier [B, d]."""

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


def image_shape(model: str, shape: tuple[int, ...], least: int = 1) -> tuple[int, int, int]:
    """Return channels, height and width; raise InputError if it is no image or a side is below `least`."""
    if len(shape) != 3 or shape[0] < 1 or min(shape[1:]) < least:
        raise InputError(
            f"model {model!r} needs images [channels, height, width] of at least {least} x {least} pixels, "
            f"not inputs of shape {list(shape)}; 'mlp' and 'logistic' accept any shape"
        )
    channels, height, width = shape
    return channels, height, width


def channels_last(x: Tensor) -> Tensor:
    """Return images [B, C, H, W] in the channels-last memory layout.

    CPU convolutions are faster in this layout, and results have the same bits whatever the input layout. This
    does not use `contiguous(memory_format=...)`, which fails under vmap and ignores one-channel images.
    """
    batch, channels, height, width = x.shape
    by_pixel = x.permute(0, 2, 3, 1).flatten(1).reshape(batch, height, width, channels)
    return by_pixel.permute(0, 3, 1, 2)


def pool_relu(x: Tensor) -> Tensor:
    """Apply 2 x 2 max-pooling, then ReLU; they commute, and this order is faster."""
    return F.relu(F.max_pool2d(x, 2), inplace=True)
