"""Logistic regression: the model whose loss is convex."""

import math

from torch import Tensor, nn

from eunoe.models.base import Classifier


class Logistic(Classifier):
    """One linear layer on the flattened input."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(math.prod(shape), classes)

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)
