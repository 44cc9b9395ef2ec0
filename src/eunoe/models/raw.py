"""Models that include the preprocessing and take inputs as they are stored."""

import copy

from torch import Tensor, nn

from eunoe.core.fields import Fields, as_input, call, logits_of
from eunoe.core.tasks import Regression
from eunoe.data.federation import Federation
from eunoe.data.preprocess import Preprocess


class RawModel(nn.Module):
    """A trained model with preprocessing, for stored inputs such as bytes [n, H, W, channels]."""

    def __init__(self, model: nn.Module, preprocess: Preprocess) -> None:
        super().__init__()
        self.model = model
        # A copy, since it moves to other devices with the module.
        self.preprocess = copy.deepcopy(preprocess)

    def forward(self, x: Tensor) -> Tensor:
        return call(self.model, self.preprocess(x))


class RawFieldsModel(RawModel):
    """A `RawModel` for inputs of several fields, passed by position or by name."""

    def __init__(self, model: nn.Module, preprocess: Preprocess, names: tuple[str, ...] | None) -> None:
        super().__init__(model, preprocess)
        self.names = names

    def forward(self, *fields: Tensor, **named: Tensor) -> Tensor:
        values = [*fields, *(named[name] for name in (self.names or ())[len(fields) :])]
        return call(self.model, self.preprocess(Fields(values, self.names)))


class EncodedModel(nn.Module):
    """A model on the features of a frozen encoder."""

    def __init__(self, encoder: nn.Module, model: RawModel) -> None:
        super().__init__()
        self.encoder, self.model = encoder, model

    def forward(self, *fields: Tensor, **named: Tensor) -> Tensor:
        x = fields[0] if len(fields) == 1 else as_input(named or fields)
        return self.model(call(self.encoder, x).float())


class UnscaledModel(nn.Module):
    """A regression model with outputs in the units of the data."""

    def __init__(self, model: nn.Module, task: Regression) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, *fields: Tensor, **named: Tensor) -> Tensor:
        return self.task.to_units(logits_of(self.model(*fields, **named)))


def raw_model(model: nn.Module, federation: Federation) -> RawModel:
    """Return a model with its backbone, if any, and preprocessing; regression outputs in the data's units."""
    data, preprocess = federation.data, federation.preprocess
    if isinstance(data.task, Regression):
        model = UnscaledModel(model, data.task)
    if data.backbone is not None:
        model = EncodedModel(data.backbone.module, RawModel(model, preprocess))
        data, preprocess = data.backbone.raw, data.backbone.preprocess
    if isinstance(data.train.x, Fields):
        return RawFieldsModel(model, preprocess, data.train.x.names)
    return RawModel(model, preprocess)
