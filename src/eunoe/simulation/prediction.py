"""Predictions of a simulation's model on inputs from outside."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eunoe.core.fields import Fields, Stored, gather
from eunoe.core.tasks import Regression
from eunoe.data.checks import InputLike, as_stored, check_inputs
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.losses.base import adjust_for_prior

_AT_ONCE = 500


def predicted(simulation: Simulation, given: InputLike, prior: ArrayLike | Tensor | None) -> NDArray[Any]:
    """The classes of inputs; with class shares or counts as a `prior`, as predicted where these hold.

    Of several labels they are rows of 0 and 1, of numbers rows in the units of the data.
    """
    task = simulation.federation.task
    if prior is not None and task.name != "classification":
        raise InputError(f"a prior is of classes, and these data are for {task.name}: leave it out")
    logits = _logits(simulation, given)
    if prior is not None:
        logits = adjust_for_prior(logits, torch.as_tensor(np.asarray(prior), dtype=logits.dtype))
    if isinstance(task, Regression):
        logits = task.to_units(logits)
    found: NDArray[Any] = task.predict(logits).cpu().numpy()
    return found


def _logits(simulation: Simulation, given: InputLike) -> Tensor:
    """The logits of the module's own weights for inputs in the form of the training inputs."""
    federation, model = simulation.federation, simulation.model
    backbone = federation.data.backbone
    x = _stored(given, (federation.data if backbone is None else backbone.raw).train.x)
    if backbone is not None:
        x = backbone.features(x)
    with model.evaluating(), torch.no_grad():
        parts = torch.split(torch.arange(len(x)), _AT_ONCE)
        batches = (federation.preprocess(gather(x, part)) for part in parts)
        return torch.cat([model.forward(batch.to(model.device)) for batch in batches])


def _stored(given: Any, like: Stored) -> Stored:
    if isinstance(like, Tensor):
        return torch.as_tensor(np.asarray(given))
    if not isinstance(like, Fields):
        return as_stored(check_inputs(given, "x"))
    x = check_inputs(given, "x")
    if not isinstance(x, Fields) or set(x.labels) != set(like.labels):
        raise InputError(f"x must have the fields {', '.join(like.labels)}, as the data that were trained on")
    by_label = dict(zip(x.labels, x.values, strict=True))
    return Fields([by_label[label] for label in like.labels], like.names)
