"""Classifiers that do not train, on top of any model that exposes its features: clients with other classes
cannot pull them apart, and they are neither trained nor sent.

frozen is FedBABU's (Oh et al., 2022, https://arxiv.org/abs/2106.06042): the classifier stays as it started.
Its clients may fine-tune a classifier of their own afterwards, which is not done here.

etf is FedETF's (Li et al., 2023, https://arxiv.org/abs/2303.10058): a simplex equiangular tight frame, in
which all classes are equally far apart, on features of length 1.

    W = sqrt(C / (C - 1)) U (I - 1/C 11^T) ;  logits = s W^T h / ||h||

    C     classes
    U     [features, C], random with orthonormal columns, the same for all clients
    h     the model's features
    s     SCALE

The paper learns s; here it is fixed, so that nothing of the classifier is learned. The paper has a linear
projection before the features, without which those that come from a ReLU reach only a part of the sphere:
`model.head = true` adds one. Its loss is `loss = "balanced"`.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError

# Large enough for a probability of nearly 1 where features and class agree, with hundreds of classes.
SCALE = 10.0


class SimplexETF(nn.Module):
    """Logits by the angles between features and the classes' directions, which never change."""

    def __init__(self, size: int, classes: int) -> None:
        super().__init__()
        if size < classes:
            raise InputError(
                f"model.classifier = 'etf' needs as many features as classes, {classes}; this model has "
                f"{size}: take a wider one, or set model.head = true"
            )
        basis = torch.linalg.qr(torch.randn(size, classes, dtype=torch.float64))[0]
        directions = math.sqrt(classes / (classes - 1)) * (basis - basis.mean(1, keepdim=True)).T
        self.directions = nn.Parameter(directions.to(torch.get_default_dtype()), requires_grad=False)

    def forward(self, features: Tensor) -> Tensor:
        return SCALE * F.linear(F.normalize(features, dim=-1), self.directions)


def fix_classifier(model: nn.Module, kind: Literal["frozen", "etf"], classes: int) -> None:
    """Make a model's classifier one that does not train."""
    classifier = getattr(model, "classifier", None)
    if not callable(getattr(model, "features", None)) or not isinstance(classifier, nn.Module):
        raise InputError(
            f"model.classifier = {kind!r} needs a model with features(x) and a classifier; "
            f"{type(model).__name__} lacks them"
        )
    if kind == "frozen":
        classifier.requires_grad_(False)
    elif isinstance(classifier, nn.Linear):
        model.classifier = SimplexETF(classifier.in_features, classes)
    else:
        raise InputError("model.classifier = 'etf' takes the place of a linear `classifier`, not of another")
