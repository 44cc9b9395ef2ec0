"""ResNet-18 for small images, with the kind of normalization as a choice."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError
from eunoe.models.base import Classifier, channels_last, image_shape

Norm = Literal["group", "batch", "mixed", "layer", "instance", "none"]


class Block(nn.Module):
    """Two 3 x 3 convolutions with a residual connection."""

    def __init__(self, inside: int, outside: int, stride: int, norms: "tuple[MakeNorm, MakeNorm]") -> None:
        super().__init__()
        first_norm, second_norm = norms
        self.first = nn.Conv2d(inside, outside, 3, stride, padding=1)
        self.first_norm = first_norm(outside)
        self.second = nn.Conv2d(outside, outside, 3, padding=1)
        self.second_norm = second_norm(outside)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride), second_norm(outside))

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(inner)) + self.shortcut(x))


class ResNet18(Classifier):
    """ResNet-18 for small images: a 3 x 3 stem without pooling, then four stages of two blocks.

    Convolutions have a bias. `norm` is one kind everywhere, or "mixed" as in the thesis on WSM: batch in the
    stem and first in each block, group second and in the shortcuts. That network also has pool = "corner".
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        *,
        norm: Norm = "group",
        groups: PositiveInt = 2,
        # Below 8 channels, torch 2.13's convolutions on a CPU corrupt memory.
        width: Annotated[int, Field(ge=8)] = 64,
        pool: Literal["global", "corner"] = "global",
    ) -> None:
        super().__init__()
        channels, _, _ = image_shape("resnet18", shape)
        if norm in ("group", "mixed") and width % groups:
            raise InputError(f"model 'resnet18': width={width} is not divisible by groups={groups}")
        norms = _norms(norm, groups)
        self.stem = nn.Conv2d(channels, width, 3, padding=1)
        self.stem_norm = norms[0](width)
        blocks, inside = [], width
        for stage in range(4):
            for stride in (1 if stage == 0 else 2, 1):
                blocks.append(Block(inside, width << stage, stride, norms))
                inside = width << stage
        self.blocks = nn.Sequential(*blocks)
        # The thesis averages only 3 x 3 of the last 4 x 4 map: its pooling window fits there once.
        self.pooled = 3 if pool == "corner" else None
        self.classifier = nn.Linear(inside, classes)

    def features(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem_norm(self.stem(channels_last(x))))
        return self.blocks(x)[..., : self.pooled, : self.pooled].mean((-2, -1))


MakeNorm = Callable[[int], nn.Module]


def _norms(norm: Norm, groups: int) -> tuple[MakeNorm, MakeNorm]:
    """Return the normalization after a block's first convolution, and after the others."""
    kinds: dict[Norm, MakeNorm] = {
        "group": lambda channels: nn.GroupNorm(groups, channels),
        "batch": nn.BatchNorm2d,
        "layer": lambda channels: nn.GroupNorm(1, channels),
        "instance": lambda channels: nn.GroupNorm(channels, channels),
        "none": lambda channels: nn.Identity(),
    }
    return (kinds["batch"], kinds["group"]) if norm == "mixed" else (kinds[norm], kinds[norm])
