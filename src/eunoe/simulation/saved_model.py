"""The models of a run, read from its newest checkpoint."""

import logging
from pathlib import Path
from typing import Literal

from eunoe.core.flat_model import Weights
from eunoe.engines.client_states import ClientStates
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.store.checkpoints import newest_checkpoint
from eunoe.store.reader import read_status
from eunoe.store.state import evaluated_model, start_state

logger = logging.getLogger(__name__)
Which = Literal["last", "best"]


def saved_weights(folder: Path, simulation: Simulation, which: Which, client: int | None) -> Weights:
    """The last model, or the best on validation; of a run without a global model, a client's own."""
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
    """The model of one client of a run without a global model."""
    if client is None or not 0 <= client < len(simulation.federation):
        raise InputError(
            f"this run has a model for each client and no global one: name a client, 0 to "
            f"{len(simulation.federation) - 1}"
        )
    state = states.load(client)
    if not state:
        raise InputError(f"client {client} has no model: it never took part")
    return simulation.method.own_model(state, which)
