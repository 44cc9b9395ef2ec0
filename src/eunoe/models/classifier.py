"""Classifiers that are not trained, for any model that exposes its features; they are not sent either.

frozen is FedBABU's (Oh et al., 2022, "FedBABU: Towards Enhanced Representation for Federated Image
Classification", https://arxiv.org/abs/2106.06042): the classifier stays at its initialization. The paper
fine-tunes each client's own classifier after training, which is not done here.

etf is FedETF's (Li et al., 2023, "No Fear of Classifier Biases: Neural Collapse Inspired Federated Learning
with Synthetic and Fixed Classifier", https://arxiv.org/abs/2303.10058): a fixed simplex equiangular tight
frame on normalized features.

    W = sqrt(C / (C - 1)) U (I - 1/C 11^T) ;  logits = s W^T h / ||h||

    C     number of classes
    U     [features, C], random with orthonormal columns, the same for all clients
    h     the model's features
    s     SCALE, an inverse temperature

Departures: the paper learns s; here it is fixed. The paper has a projection layer before the features,
without which those that come from a ReLU only reach a part of the sphere: set `model.head = true`. The
paper's loss is `loss = "balanced"`.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError

# Large enough for probabilities close to 1 with hundreds of classes.
SCALE = 10.0


class SimplexETF(nn.Module):
    """Logits from the cosines between features and fixed class directions."""

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
    """Freeze a model's classifier, or replace it by a simplex ETF."""
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
