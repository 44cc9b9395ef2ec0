"""Tries a model on what a client would train on, before round 1."""

import torch

from eunoe.config.schema import Config
from eunoe.core.flat_model import FlatModel
from eunoe.data.federation import Federation
from eunoe.data.transforms import augment_batch
from eunoe.errors import InputError, first_line


def try_model(model: FlatModel, federation: Federation, config: Config) -> None:
    """Refuse a model that cannot take the inputs or gives other outputs than the classes need."""
    section, x = config.model, federation.inputs("clients", torch.zeros(2, dtype=torch.int64), 0)
    x = augment_batch(x, config.augment, torch.Generator(), federation.preprocess.black).to(model.device)
    with model.evaluating(), torch.no_grad():
        try:
            logits = model.forward(x)
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"model {section.name!r} cannot take inputs of shape {federation.shape}: {first_line(error)}"
            ) from None
    if not isinstance(logits, torch.Tensor):
        raise InputError(f"model {section.name!r} returns a {type(logits).__name__}; it must return a tensor")
    if logits.ndim != 2 or logits.shape[1] != federation.classes:
        raise InputError(
            f"model {section.name!r} returns outputs of shape {tuple(logits.shape[1:])}, "
            f"but the data have {federation.classes} classes"
        )
    model.has_features = model.has_features and _composed(model, x, logits)


def _composed(model: FlatModel, x: torch.Tensor, logits: torch.Tensor) -> bool:
    """Whether the logits are the model's classifier applied to its features."""
    with model.evaluating(), torch.no_grad():
        try:
            return torch.allclose(model.features_at(None, x)[1], logits, equal_nan=True)
        except Exception:
            # A user's `features` and `classifier` may mean anything, and so may fail in any way.
            return False
