"""The contract of an engine: it trains clients and evaluates models, always with the same results."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eunoe.config import registry
from eunoe.config.schema import Config
from eunoe.core.fields import Input
from eunoe.core.flat_model import Weights
from eunoe.engines.attacks import attack_update
from eunoe.engines.client_states import ClientStates
from eunoe.engines.devices import Transfers
from eunoe.engines.private import PrivatePart
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.losses.base import adjust_for_prior
from eunoe.metrics.base import Predictions, Rows, select
from eunoe.server.aggregator import Aggregator, Examined
from eunoe.server.secure_sum import SecureSum
from eunoe.server.updates import Broadcast, Update
from eunoe.system.machine import can_fork

logger = logging.getLogger(__name__)


class Engine:
    """Where clients train and models are evaluated.

    An engine of your own derives from this class and is named in a config as `package.module:Name`. Its
    `__init__` takes the simulation, the clients' states and, as keyword arguments, its options.
    """

    def __init__(self, simulation: Simulation, states: ClientStates) -> None:
        self.simulation, self.states = simulation, states
        # What was copied to workers and devices and back; a round's timings show it.
        self.transfers = Transfers()
        # Added to the environment of the run.
        self.environment: dict[str, Any] = {}

    def train(self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        """Train clients in the simulation of a round and yield their updates in the order of the clients.

        Each client's new state is saved for the round and becomes current once the round accepts it.
        """
        raise NotImplementedError

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        """Return the predictions of each model on these samples; here in this process."""
        parts = chunks(self.simulation, where)
        return [concatenate([evaluate_chunk(self.simulation, m, part) for part in parts]) for m in models]

    def aggregate(
        self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast, aggregator: Aggregator
    ) -> Iterator[Examined]:
        """Train clients, and check and add their updates in their order."""
        for update in self.train(simulation, clients, broadcast):
            yield from aggregator.receive(attack_update(simulation, update, broadcast))
        yield from aggregator.settle()

    def secure_sum(
        self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast, aggregator: Aggregator
    ) -> SecureSum:
        """Train clients and return the sum of their updates, which is all that secure aggregation reveals."""
        assert simulation.secure is not None
        fixed_point = simulation.secure.fixed_point
        total = SecureSum(fixed_point.zeros())
        for update in self.train(simulation, clients, broadcast):
            total.add(fixed_point, aggregator, attack_update(simulation, update, broadcast))
        return total

    def evaluate_elsewhere(self, weights: Weights) -> dict[str, dict[str, Any]]:
        """Return metrics of a model on data that are not on this machine, by place."""
        return {}

    def clock(self) -> float:
        """Return the seconds that have passed for the run."""
        return time.monotonic()

    def close(self) -> None:
        """Stop whatever the engine has started."""

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def make_engine(config: Config, simulation: Simulation, states: ClientStates) -> Engine:
    """Return the engine of a configuration."""
    options = {key: value for key, value in config.engine.options.items() if value is not None}
    name = config.engine.name
    if name == "process" and not can_fork():
        if "devices" in options:
            raise InputError(
                "engine.devices needs a system that can fork; set engine = 'serial' and its device"
            )
        logger.info("this system cannot fork: clients train one after the other, with the same results")
        name, options = "serial", {}
    return registry.build("engine", name, options, simulation=simulation, states=states)


def chunks(simulation: Simulation, where: Rows) -> list[Rows]:
    """Cut samples into chunks for evaluation, the same for every engine."""
    cuts = range(simulation.evaluation_chunk, len(where.rows), simulation.evaluation_chunk)
    rows = np.split(where.rows, cuts)
    owners = [None] * len(rows) if where.owners is None else np.split(where.owners, cuts)
    return [replace(where, rows=part, owners=owner) for part, owner in zip(rows, owners, strict=True)]


def evaluate_chunk(simulation: Simulation, weights: Weights, where: Rows) -> Predictions:
    """Return a model's predictions on one chunk."""
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


def concatenate(parts: Sequence[Predictions]) -> Predictions:
    """Concatenate the predictions of consecutive chunks."""
    logits = [part.logits for part in parts if part.logits is not None]
    return Predictions(
        np.concatenate([part.predicted for part in parts]),
        np.concatenate([part.losses for part in parts]),
        np.sum([part.probability for part in parts], axis=0),
        np.concatenate(logits) if logits else None,
    )


class OwnModels:
    """Evaluates each client's own best model on its samples, for methods without a global model."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        """Return predictions on clients' samples; a client without a model of its own uses the one passed."""
        if where.owners is None:
            raise InputError(
                "a metric evaluates samples that no client owns, but this method has no global model: "
                "remove it from metrics"
            )
        order = np.argsort(where.owners, kind="stable")
        cuts = np.flatnonzero(np.diff(where.owners[order])) + 1
        parts = [replace(where, rows=where.rows[at], owners=where.owners[at]) for at in np.split(order, cuts)]
        results = [concatenate([self._predict(start, part) for part in parts]) for start in models]
        return [select(each, np.argsort(order)) for each in results]

    def _predict(self, start: Weights, part: Rows) -> Predictions:
        assert part.owners is not None
        state = self.engine.states.load(int(part.owners[0]))
        (predictions,) = self.engine.evaluate([self._model(state, start).to("cpu") if state else start], part)
        return predictions

    def _model(self, state: Mapping[str, Tensor], start: Weights) -> Weights:
        return self.engine.simulation.method.own_model(state, "best")


class PrivateModels(OwnModels):
    """Evaluates a model with each client's private part on its samples, and with their mean on all others."""

    def __init__(self, engine: Engine, private: PrivatePart, mean: Callable[[Weights], Weights]) -> None:
        super().__init__(engine)
        self.private, self.mean = private, mean

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        """Return predictions; a client without a private part uses the mean."""
        models = [self.mean(model) for model in models]
        evaluate = self.engine.evaluate if where.owners is None else super().evaluate
        return evaluate(models, where)

    def evaluate_elsewhere(self, weights: Weights) -> dict[str, dict[str, Any]]:
        return self.engine.evaluate_elsewhere(weights)

    def _model(self, state: Mapping[str, Tensor], start: Weights) -> Weights:
        return self.private.put(start, state)
