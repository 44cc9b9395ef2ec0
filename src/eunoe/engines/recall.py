"""What a client keeps from round to round besides its method's state: samples to replay, and label counts."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from torch import Tensor

from eunoe.core.flat_model import Vectors
from eunoe.core.rng import generator
from eunoe.data.federation_in_round import FederationInRound
from eunoe.engines import label_history, replay
from eunoe.engines.label_history import LabelHistory
from eunoe.engines.replay import Memory
from eunoe.engines.simulation import Simulation

_NAMES = {replay.ROWS, replay.SEEN, replay.FULL, label_history.EARLIER, label_history.MOST}


class Recalled(NamedTuple):
    """What a client remembers at the start of a round; None: such things are not kept."""

    memory: Memory | None = None
    history: LabelHistory | None = None


def recalled(
    simulation: Simulation, client: int, state: Mapping[str, Tensor]
) -> tuple[Recalled, Mapping[str, Tensor]]:
    """What a client remembers, which its federation then goes by, and the method's part of its state."""
    federation = simulation.federation
    if not simulation.recalls or not isinstance(federation, FederationInRound):
        return Recalled(), state
    memory = history = None
    if simulation.replay is not None:
        memory = Memory.of(state, simulation.replay.memory, federation.classes)
        federation.remembered[client] = memory.rows[~np.isin(memory.rows, federation.rows(client))]
    if simulation.recalls_counts:
        history = LabelHistory.of(state, simulation.stale_counts, federation.classes)
        now = federation.counts_now(client)
        federation.known[client], federation.seen[client] = history.known(now), history.seen(now)
    rest = {name: value for name, value in state.items() if name not in _NAMES}
    return Recalled(memory, history), rest


def kept(simulation: Simulation, client: int, before: Recalled) -> Vectors:
    """What a client keeps of what it remembered and of what it has seen in this round."""
    federation, found = simulation.federation, Vectors()
    if not isinstance(federation, FederationInRound):
        return found
    if before.memory is not None:
        rng = generator(simulation.context.seed, "replay", federation.round, client)
        labels = federation.data.train.y.numpy()
        found |= before.memory.after(federation.rows(client), labels, rng).state()
    if before.history is not None:
        found |= before.history.after(federation.counts_now(client)).state()
    return found
