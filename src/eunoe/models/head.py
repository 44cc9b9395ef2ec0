"""MOON's projection head (Li et al., 2021), on top of any model that exposes its features."""

import copy

from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError
from eunoe.models.base import Classifier


class WithHead(Classifier):
    """A model's features h, projected to z = Linear(ReLU(Linear(h))) [its `features`], then classified."""

    def __init__(self, body: nn.Module, size: int, classes: int, out: int) -> None:
        super().__init__()
        self.body = body
        self.hidden = nn.Linear(size, size)
        self.projection = nn.Linear(size, out)
        self.classifier = nn.Linear(out, classes)

    def features(self, x: Tensor) -> Tensor:
        projected: Tensor = self.projection(F.relu(self.hidden(self.body.features(x))))  # type: ignore[operator]
        return projected


def with_head(model: nn.Module, classes: int, out: int = 256) -> WithHead:
    """A copy of the model whose classifier gave way to a projection to `out` numbers and a new classifier."""
    name, classifier = type(model).__name__, getattr(model, "classifier", None)
    if not callable(getattr(model, "features", None)) or not isinstance(classifier, nn.Module):
        raise InputError(
            f"a projection head needs a model with features(x) and a classifier; {name} lacks them"
        )
    sizes = [layer.in_features for layer in classifier.modules() if isinstance(layer, nn.Linear)]
    if not sizes:
        raise InputError(f"the classifier of {name} must begin with a linear layer to take a head")
    body = copy.deepcopy(model)
    body.classifier = nn.Identity()
    return WithHead(body, sizes[0], classes, out)
