"""The reference engine: one client after the other in this process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from eunoe.engines.base import Engine
from eunoe.engines.client import train_client
from eunoe.engines.client_states import ClientStates
from eunoe.engines.simulation import Simulation
from eunoe.server.updates import Broadcast, Update


@contextmanager
def note_client(client: int, round: int) -> Iterator[None]:
    """Add the client and the round to exceptions raised in the block."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This happened while client {client} trained in round {round}.")
        raise


def train_and_save(simulation: Simulation, states: ClientStates, client: int, broadcast: Broadcast) -> Update:
    """Train a client from its current state and save its new one; an exception names client and round."""
    with note_client(client, broadcast.round):
        update, state = train_client(simulation, client, broadcast, states.load(client))
    states.save(client, broadcast.round, state)
    # No network carries it here.
    update.packed = {}
    return update


class Serial(Engine):
    """One client after the other in this process."""

    def train(self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        broadcast = broadcast.to(simulation.model.device)
        for client in clients:
            yield train_and_save(simulation, self.states, client, broadcast)
