"""Variants of a model's classifier: frozen, ETF, without bias, or with MOON's projection head.

A frozen or ETF classifier is neither trained nor sent.

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
without which features after a ReLU cover only a part of the sphere: set `model.head = true`. The paper's
loss is `loss = "balanced"`.
"""

import copy
import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError
from eunoe.models.base import Classifier

# Large enough for probabilities close to 1 with hundreds of classes.
SCALE = 10.0


class SimplexETF(nn.Module):
    """A classifier whose logits are cosines between features and fixed class directions."""

    def __init__(self, size: int, classes: int) -> None:
        super().__init__()
        if size < classes:
            raise InputError(
                f"model.classifier='etf' needs at least {classes} features, not {size}: set model.head = true"
            )
        basis = torch.linalg.qr(torch.randn(size, classes, dtype=torch.float64))[0]
        directions = math.sqrt(classes / (classes - 1)) * (basis - basis.mean(1, keepdim=True)).T
        self.directions = nn.Parameter(directions.to(torch.get_default_dtype()), requires_grad=False)

    def forward(self, features: Tensor) -> Tensor:
        return SCALE * F.linear(F.normalize(features, dim=-1), self.directions)


def fix_classifier(model: nn.Module, kind: Literal["frozen", "etf"], classes: int) -> None:
    """Freeze a model's classifier, or replace it by a simplex ETF."""
    classifier = _get_classifier(model, f"model.classifier = {kind!r}")
    if kind == "frozen":
        classifier.requires_grad_(False)
    elif isinstance(classifier, nn.Linear):
        model.classifier = SimplexETF(classifier.in_features, classes)
    else:
        raise InputError("model.classifier = 'etf' can replace only a linear `classifier`")


def remove_bias(model: nn.Module) -> None:
    """Remove the bias of a model's last layer, which computes its logits."""
    modules = getattr(model, "classifier", nn.Module()).modules()
    last = [layer for layer in modules if isinstance(layer, nn.Linear)][-1:]
    if not last:
        raise InputError(f"model.classifier_bias = false needs a linear classifier in {type(model).__name__}")
    last[0].register_parameter("bias", None)


class WithHead(Classifier):
    """A model with MOON's projection head (Li et al., 2021): its features are Linear(ReLU(Linear(h)))."""

    def __init__(self, body: nn.Module, size: int, classes: int, out: int) -> None:
        super().__init__()
        self.body = body
        self.hidden = nn.Linear(size, size)
        self.projection = nn.Linear(size, out)
        self.classifier = nn.Linear(out, classes)

    def features(self, x: Tensor) -> Tensor:
        return self.projection(F.relu(self.hidden(self.body.features(x))))  # type: ignore[operator]


def add_head(model: nn.Module, classes: int, out: int = 256) -> WithHead:
    """Return a copy of the model with a projection to `out` features and a new classifier."""
    classifier = _get_classifier(model, "a projection head")
    sizes = [layer.in_features for layer in classifier.modules() if isinstance(layer, nn.Linear)]
    if not sizes:
        raise InputError(f"a projection head needs a linear classifier; {type(model).__name__} has none")
    body = copy.deepcopy(model)
    body.classifier = nn.Identity()
    return WithHead(body, sizes[0], classes, out)


def _get_classifier(model: nn.Module, what: str) -> nn.Module:
    """Return the classifier of a model that has one and features; `what` needs them."""
    classifier = getattr(model, "classifier", None)
    if callable(getattr(model, "features", None)) and isinstance(classifier, nn.Module):
        return classifier
    raise InputError(f"{what} needs a model with features(x) and a classifier, not {type(model).__name__}")
