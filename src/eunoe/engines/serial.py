"""The reference engine: one client after the other in this process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from eunoe.core.flat_model import Weights
from eunoe.engines.base import Engine, chunks, evaluate_chunk, joined
from eunoe.engines.client import Broadcast, Update, train_client
from eunoe.engines.client_states import ClientStates
from eunoe.engines.simulation import Simulation
from eunoe.metrics.base import Predictions, Rows


@contextmanager
def noting(client: int, round: int) -> Iterator[None]:
    """Add a note to an exception: which client failed in which round."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This happened while client {client} trained in round {round}.")
        raise


def train_and_keep(simulation: Simulation, states: ClientStates, client: int, broadcast: Broadcast) -> Update:
    """Train a client from its current state and save its new one; an exception names client and round."""
    with noting(client, broadcast.round):
        update, state = train_client(simulation, client, broadcast, states.load(client))
    states.save(client, broadcast.round, state)
    # No network carries it here.
    update.packed = {}
    return update


@dataclass(frozen=True)
class SerialTrainer:
    """One client after the other."""

    simulation: Simulation
    states: ClientStates

    def train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        broadcast = broadcast.to(self.simulation.model.device)
        for client in clients:
            yield train_and_keep(self.simulation, self.states, client, broadcast)


@dataclass(frozen=True)
class LocalEvaluator:
    """Evaluates in this process, on the model's device."""

    simulation: Simulation

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        parts = chunks(self.simulation, where)
        return [joined([evaluate_chunk(self.simulation, model, part) for part in parts]) for model in models]


class Serial(Engine):
    """One client after the other in this process."""

    def __init__(self, simulation: Simulation, states: ClientStates) -> None:
        super().__init__(simulation, states, SerialTrainer(simulation, states), LocalEvaluator(simulation))
