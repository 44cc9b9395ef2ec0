"""The base of all networks (features, then a classifier), and helpers for convolutions."""

from abc import ABC, abstractmethod
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError

# The width of a layer; a wider one is a mistake that would take all memory.
Width = Annotated[int, Field(gt=0, le=65_536)]


class Classifier(nn.Module, ABC):
    """A network whose logits are `classifier(features(x))`."""

    classifier: nn.Module

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """What the classifier sees, [B, d]."""

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x))
        return logits


def remove_bias(model: nn.Module) -> None:
    """Remove the bias of a model's last layer, which gives its logits."""
    modules = getattr(model, "classifier", nn.Module()).modules()
    last = [layer for layer in modules if isinstance(layer, nn.Linear)][-1:]
    if not last:
        raise InputError(
            f"model.classifier_bias = false needs a linear `classifier`; {type(model).__name__} has none"
        )
    last[0].register_parameter("bias", None)


def image_shape(model: str, shape: tuple[int, ...], least: int = 1) -> tuple[int, int, int]:
    """The shape as channels, height and width, if it is that of an image with sides of at least `least`."""
    if len(shape) != 3 or shape[0] < 1 or min(shape[1:]) < least:
        raise InputError(
            f"model {model!r} takes images [channels, height, width] of {least} x {least} pixels or more, "
            f"not inputs of shape {list(shape)}; 'mlp' and 'logistic' take any shape"
        )
    channels, height, width = shape
    return channels, height, width


def channels_last(x: Tensor) -> Tensor:
    """The same images [B, C, H, W] with each pixel's channels side by side in memory.

    CPU convolutions are faster in this layout, and results have the same bits whatever layout came in. It is
    written out because `contiguous(memory_format=...)` neither works under vmap nor marks one-channel images.
    """
    batch, channels, height, width = x.shape
    by_pixel = x.permute(0, 2, 3, 1).flatten(1).reshape(batch, height, width, channels)
    return by_pixel.permute(0, 3, 1, 2)


def pool_relu(x: Tensor) -> Tensor:
    """2 x 2 max-pooling and ReLU; they commute, and in this order the ReLU has a quarter of the work."""
    return F.relu(F.max_pool2d(x, 2), inplace=True)
