"""The models of a run, read from its newest checkpoint, and their predictions."""

import logging
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eunoe.core.fields import Fields, Stored, gather
from eunoe.core.flat_model import Weights
from eunoe.core.tasks import Regression
from eunoe.data.checks import InputLike, as_stored, check_inputs
from eunoe.engines.client_states import ClientStates
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.losses.base import adjust_for_prior
from eunoe.store.checkpoints import newest_checkpoint
from eunoe.store.reader import read_status
from eunoe.store.state import evaluated_model, start_state

logger = logging.getLogger(__name__)
Which = Literal["last", "best"]
_AT_ONCE = 500


def saved_weights(folder: Path, simulation: Simulation, which: Which, client: int | None) -> Weights:
    """Return the last model, or the best on validation; of a run without a global model, a client's own."""
    run_state = start_state(simulation)
    saved, warnings = newest_checkpoint(folder)
    for warning in warnings:
        logger.warning(warning)
    if saved is None or not saved.round:
        raise InputError(f"{folder} has no model yet: the run has no checkpoint")
    if saved.round < read_status(folder).get("round", 0):
        logger.warning("%s is the newest checkpoint that is there, and there was a later one", saved.path)
    saved.load(run_state)
    if not simulation.method.aggregates:
        states = ClientStates(folder / "states")
        states.accepted = dict(saved.manifest.accepted)
        return own_weights(simulation, states, which, client)
    if client is not None:
        raise InputError("this run's clients share one model: leave the client out")
    if which == "best":
        if run_state.best is None:
            raise InputError(f"{folder} has no best model: nothing was evaluated on validation data")
        return run_state.best
    return evaluated_model(simulation, run_state)


def own_weights(simulation: Simulation, states: ClientStates, which: Which, client: int | None) -> Weights:
    """Return the model of one client of a run without a global model."""
    if client is None or not 0 <= client < len(simulation.federation):
        raise InputError(
            f"this run has a model for each client and no global one: name a client, 0 to "
            f"{len(simulation.federation) - 1}"
        )
    state = states.load(client)
    if not state:
        raise InputError(f"client {client} has no model: it never took part")
    return simulation.method.own_model(state, which)


def predict(simulation: Simulation, given: InputLike, prior: ArrayLike | Tensor | None) -> NDArray[Any]:
    """Return the classes of inputs; with class shares or counts as a `prior`, as predicted where these hold.

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
    """Return the logits of the module's own weights for inputs in the form of the training inputs."""
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
