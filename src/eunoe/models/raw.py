"""A model that takes inputs as they are stored: the preprocessing belongs to the module."""

import copy

from torch import Tensor, nn

from eunoe.core.calling import call
from eunoe.core.fields import Fields, Stored
from eunoe.data.preprocess import Preprocess


class RawModel(nn.Module):
    """Logits of stored inputs, such as bytes [n, H, W, channels]; `model` is what was trained."""

    def __init__(self, model: nn.Module, preprocess: Preprocess) -> None:
        super().__init__()
        self.model = model
        # A copy, which moves to another device with the module.
        self.preprocess = copy.deepcopy(preprocess)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = call(self.model, self.preprocess(x))
        return logits


class RawFieldsModel(RawModel):
    """Logits of stored inputs of several fields, passed by position or by name."""

    def __init__(self, model: nn.Module, preprocess: Preprocess, names: tuple[str, ...] | None) -> None:
        super().__init__(model, preprocess)
        self.names = names

    def forward(self, *fields: Tensor, **named: Tensor) -> Tensor:
        values = [*fields, *(named[name] for name in (self.names or ())[len(fields) :])]
        logits: Tensor = call(self.model, self.preprocess(Fields(values, self.names)))
        return logits


def raw_model(model: nn.Module, preprocess: Preprocess, stored: Stored) -> RawModel:
    """A model with its preprocessing, for samples that are stored like these."""
    if isinstance(stored, Fields):
        return RawFieldsModel(model, preprocess, stored.names)
    return RawModel(model, preprocess)
