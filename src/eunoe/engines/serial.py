"""The reference engine: one client after the other in this process."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from eunoe.engines.base import Engine
from eunoe.engines.client import train_client
from eunoe.engines.client_states import ClientStates
from eunoe.engines.simulation import Simulation
from eunoe.server.updates import Broadcast, Update


@contextmanager
def add_note(note: str) -> Iterator[None]:
    """Add a note to exceptions raised in the block."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise


def note_client(client: int, round: int) -> AbstractContextManager[None]:
    """Add the client and the round to exceptions raised in the block."""
    return add_note(f"This happened while client {client} trained in round {round}.")


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
