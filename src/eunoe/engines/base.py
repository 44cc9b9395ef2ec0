"""What an engine is: it trains clients and evaluates models, always with the same results.

The functions below are shared by engines: how samples are cut into chunks and evaluated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from eunoe.config import registry
from eunoe.config.schema import Config
from eunoe.core.fields import Input
from eunoe.core.flat_model import Weights
from eunoe.engines.aggregation import Aggregator, Settled
from eunoe.engines.attacks import attacked
from eunoe.engines.client import Broadcast, Update
from eunoe.engines.client_states import ClientStates
from eunoe.engines.secure_sum import SecureSum
from eunoe.engines.simulation import Simulation
from eunoe.engines.transfers import Transfers
from eunoe.losses.base import adjust_for_prior
from eunoe.metrics.base import Evaluator, Predictions, Rows


class Trainer(Protocol):
    """Trains clients."""

    def train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        """Train these clients and yield their updates in the order of the clients.

        Each client's new state is saved for the round and becomes current once the round accepts it.
        """


class Engine:
    """Where clients train and models are evaluated: a trainer and an evaluator.

    An engine of your own derives from this class and is named in a config as `package.module:Name`. Its
    `__init__` takes the simulation, the clients' states and, as keyword arguments, its options.
    """

    def __init__(
        self, simulation: Simulation, states: ClientStates, trainer: Trainer, evaluator: Evaluator
    ) -> None:
        self.simulation, self.states = simulation, states
        self.trainer, self.evaluator = trainer, evaluator
        # What was copied to workers and devices and back; a round's timings show it.
        self.transfers = Transfers()

    def train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        """The updates of these clients, in their order."""
        return self.trainer.train(clients, broadcast)

    def aggregate(
        self, clients: Sequence[int], broadcast: Broadcast, aggregator: Aggregator, vectors: bool = True
    ) -> Iterator[Settled]:
        """Train these clients, and check and add their updates in their order.

        The updates that come out need their vectors only if `vectors` says so.
        """
        simulation = self.simulation.in_round(broadcast.round)
        for update in self.train(clients, broadcast):
            yield from aggregator.receive(attacked(simulation, update, broadcast))
        yield from aggregator.settle()

    def train_summed(self, clients: Sequence[int], broadcast: Broadcast) -> SecureSum:
        """The sum of these clients' updates, which is all that secure aggregation reveals."""
        simulation = self.simulation.in_round(broadcast.round)
        assert simulation.fixed_point is not None
        found = SecureSum(simulation.fixed_point.zeros())
        for update in self.train(clients, broadcast):
            found.add(simulation, attacked(simulation, update, broadcast), broadcast)
        return found

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        """The predictions of each model on these samples."""
        return self.evaluator.evaluate(models, where)

    def measured_elsewhere(self, weights: Weights) -> dict[str, dict[str, Any]]:
        """Metrics of a model on data that are not on this machine, by place."""
        return {}

    def close(self) -> None:
        """Stop whatever the engine has started."""

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_engine(config: Config, simulation: Simulation, states: ClientStates) -> Engine:
    """The engine of a configuration."""
    given = {key: value for key, value in config.engine.options.items() if value is not None}
    engine: Engine = registry.build("engine", config.engine.name, given, simulation=simulation, states=states)
    return engine


def chunks(simulation: Simulation, where: Rows) -> list[Rows]:
    """Samples cut into chunks for evaluation, the same for every engine."""
    cuts = range(simulation.evaluation_chunk, len(where.rows), simulation.evaluation_chunk)
    rows = np.split(where.rows, cuts)
    owners = [None] * len(rows) if where.owners is None else np.split(where.owners, cuts)
    return [replace(where, rows=part, owners=owner) for part, owner in zip(rows, owners, strict=True)]


def evaluate_chunk(simulation: Simulation, weights: Weights, where: Rows) -> Predictions:
    """A model's predictions on one chunk."""
    model, federation = simulation.model, simulation.federation
    model.load(weights)
    rows = torch.from_numpy(where.rows)
    if federation.shift is None or where.owners is None:
        x: Input = federation.inputs(where.source, rows)
    else:
        # Inputs may differ by client (feature shift).
        cuts = np.flatnonzero(np.diff(where.owners)) + 1
        parts = zip(np.split(where.rows, cuts), np.split(where.owners, cuts), strict=True)
        seen = [federation.inputs(where.source, torch.from_numpy(r), int(o[0])) for r, o in parts]
        x = torch.cat([part for part in seen if isinstance(part, Tensor)])
    labels = federation.samples(where.source).y[rows]
    with model.evaluating(), torch.no_grad():
        logits = model.forward(x.to(model.device)).cpu().double()
        if where.prior and where.owners is not None:
            clients, owner = np.unique(where.owners, return_inverse=True)
            counts = torch.stack([federation.counts(int(client)) for client in clients]).double()
            logits = adjust_for_prior(logits, counts[torch.from_numpy(owner)])
        task = federation.task
        losses, probability = task.losses(logits, labels), task.probabilities(logits).sum(0)
        predicted = task.predict(logits)
    kept = logits.numpy() if where.logits else None
    return Predictions(predicted.numpy(), losses.numpy(), probability.numpy(), kept)


def joined(parts: Sequence[Predictions]) -> Predictions:
    """Concatenate the predictions of consecutive chunks."""
    logits = [part.logits for part in parts if part.logits is not None]
    return Predictions(
        np.concatenate([part.predicted for part in parts]),
        np.concatenate([part.losses for part in parts]),
        np.sum([part.probability for part in parts], axis=0),
        np.concatenate(logits) if logits else None,
    )
