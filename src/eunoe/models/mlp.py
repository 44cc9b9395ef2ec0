"""A multi-layer perceptron and logistic regression, for inputs of any shape."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from eunoe.models.base import Classifier, Width


class MLP(Classifier):
    """Linear layers with ReLU between them, on the flattened input."""

    def __init__(self, shape: tuple[int, ...], classes: int, *, hidden: Sequence[Width] = (128,)) -> None:
        super().__init__()
        sizes = [math.prod(shape), *hidden]
        layers = [layer for i, o in pairwise(sizes) for layer in (nn.Linear(i, o), nn.ReLU())]
        self.hidden = nn.Sequential(*layers)
        self.classifier = nn.Linear(sizes[-1], classes)

    def features(self, x: Tensor) -> Tensor:
        return self.hidden(x.flatten(1))


class Logistic(Classifier):
    """One linear layer on the flattened input; its loss is convex."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(math.prod(shape), classes)

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)
