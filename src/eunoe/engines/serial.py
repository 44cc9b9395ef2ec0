"""The reference engine: one client after the other in this process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from eunoe.core.flat_model import Weights
from eunoe.engines.base import Engine, Predictions, Rows, chunks, evaluate_chunk, joined
from eunoe.training.client import Broadcast, Update, train_client


@contextmanager
def noting(client: int, round: int) -> Iterator[None]:
    """Let an exception say which client failed, and when."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This happened while client {client} trained in round {round}.")
        raise


def train_and_keep(engine: Engine, client: int, broadcast: Broadcast) -> Update:
    """Train a client from its last state and save its new one; an exception says who failed when."""
    with noting(client, broadcast.round):
        update, state = train_client(engine.simulation, client, broadcast, engine.states.load(client))
    engine.states.save(client, broadcast.round, state)
    return update


class Serial(Engine):
    """One client after the other."""

    def train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        broadcast = broadcast.to(self.simulation.model.device)
        for client in clients:
            yield train_and_keep(self, client, broadcast)

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        parts = chunks(self.simulation, where)
        return [joined([evaluate_chunk(self.simulation, model, part) for part in parts]) for model in models]
