"""Tries a model on what a client would train on, before round 1."""

import inspect
from collections.abc import Iterable

import torch

from eunoe.config import registry
from eunoe.config.schema import Config
from eunoe.core.fields import Fields, Input, describe_input, leaves
from eunoe.core.flat_model import FlatModel
from eunoe.data.federation import Federation
from eunoe.data.samples import DataSet
from eunoe.data.transforms import augment_batch
from eunoe.errors import InputError, first_line
from eunoe.models.base import Classifier


def try_model(model: FlatModel, federation: Federation, config: Config) -> None:
    """Refuse a model that cannot take the inputs or gives other outputs than the classes need."""
    section, x = config.model, federation.inputs("clients", torch.zeros(2, dtype=torch.int64), 0)
    x = augment_batch(x, config.augment, torch.Generator(), federation.preprocess.black).to(model.device)
    _check_arguments(model, x, section.name)
    form = describe_input(federation.data.train.x) if isinstance(x, Fields) else f"shape {federation.shape}"
    # A module that takes one argument gets a dict or tuple of the fields, which it may not expect.
    unexpected = (TypeError, AttributeError) if isinstance(x, Fields) else ()
    with model.evaluating(), torch.no_grad():
        try:
            logits = model.forward(x)
        except (RuntimeError, ValueError, *unexpected) as error:
            raise InputError(
                f"model {section.name!r} cannot take inputs of {form}: {first_line(error)}"
            ) from None
    if not isinstance(logits, torch.Tensor):
        raise InputError(
            f"model {section.name!r} returns a {type(logits).__name__}; it must return a tensor or an object "
            "with `logits`"
        )
    if logits.ndim != 2 or logits.shape[1] != federation.classes:
        raise InputError(
            f"model {section.name!r} returns outputs of shape {tuple(logits.shape[1:])}, "
            f"but the data have {federation.classes} {federation.task.outputs}"
        )
    model.has_features = model.has_features and _composed(model, x, logits)


def takes_fields(name: str, fields: Iterable[str]) -> None:
    """Refuse a named model that takes one tensor where samples have several fields."""
    if ":" not in name and name not in registry.names("model"):
        return
    component = registry.find("model", name)
    if isinstance(component, type) and getattr(component, "forward", None) is Classifier.forward:
        raise InputError(
            f"model {name!r} takes one tensor, and samples have the fields {', '.join(fields)}: "
            "take 'hf' or a model of your own"
        )


def takes_ids(data: DataSet, random: bool) -> None:
    """Refuse inputs of model 'hf' that are no token ids, or ids that its pretrained weights do not mean."""
    encoding = data.encoding or {}
    own_words = encoding.get("kind") == "text" and "tokenizer" not in encoding and not random
    if own_words or leaves(data.train.x)[0].is_floating_point():
        what = "numbers of words in the training part" if own_words else describe_input(data.train.x)
        raise InputError(
            f"model 'hf' takes token ids, and samples are {what}: set the tokenizer of a text to the model's"
        )


def _check_arguments(model: FlatModel, x: Input, name: str) -> None:
    """Refuse a model whose `forward` does not take what samples have."""
    if not isinstance(x, Fields):
        return
    args, named = model.arguments_of(x)
    signature = inspect.signature(model.module.forward)
    try:
        signature.bind(*args, **named)
    except TypeError:
        raise InputError(
            f"model {name!r} takes {signature}, and samples have the fields {', '.join(x.labels)}"
        ) from None


def _composed(model: FlatModel, x: Input, logits: torch.Tensor) -> bool:
    """Whether the logits are the model's classifier applied to its features."""
    with model.evaluating(), torch.no_grad():
        try:
            return torch.allclose(model.features_at(None, x)[1], logits, equal_nan=True)
        except Exception:
            # A user's `features` and `classifier` may mean anything, and so may fail in any way.
            return False
