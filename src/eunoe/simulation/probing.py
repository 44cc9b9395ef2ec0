"""The hook that runs probes: measurements of a round's start model, local models and global model.

A probe draws random numbers from its own keys and only evaluates, so a run gives the same bits with and
without probes. Its result is a line in probes.jsonl.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from eunoe.config.options import Probe
from eunoe.config.schema import Config
from eunoe.core.flat_model import Weights
from eunoe.core.rng import generator
from eunoe.engines.simulation import Simulation
from eunoe.metrics.base import Evaluator, Metric, Role, Snapshot
from eunoe.metrics.evaluation import evaluate_on
from eunoe.metrics.named import can_measure, probe_metric
from eunoe.server.updates import Update
from eunoe.simulation.hooks import Hook, Round, remember, restore
from eunoe.store.checkpoints import RunState
from eunoe.store.schema import SCHEMA


class NamedProbe(NamedTuple):
    """A probe, the name under which it is recorded, and its metric."""

    probe: Probe
    name: str
    metric: Metric


class Probing(Hook):
    """Runs the probes of the rounds that are due."""

    def __init__(
        self, simulation: Simulation, config: Config, evaluator: Evaluator, run_state: RunState
    ) -> None:
        self.federation, self.seed = simulation.federation, simulation.context.seed
        self.rounds, self.evaluator, self.run_state = config.rounds, evaluator, run_state
        # Clients' models are compared with the global one, and must be visible.
        secret = config.secure_aggregation or config.privacy or config.private
        hidden = not simulation.method.aggregates or secret
        named = [NamedProbe(probe, *probe_metric(probe)) for probe in (() if hidden else config.probes)]
        self.probes = [probe for probe in named if can_measure(probe.metric, self.federation)]
        self.metrics = {f"probe {at} {probe.name}": probe.metric for at, probe in enumerate(self.probes)}
        restore(self.metrics, run_state)
        # The probes that are due in this round, the clients whose models they measure, and the models.
        self.due: list[NamedProbe] = []
        self.selected: set[int] = set()
        self.start: Weights | None = None
        self.local: dict[int, Weights] = {}

    def before_training(self, round: int, clients: Sequence[int], start: Weights) -> None:
        self.due = [probe for probe in self.probes if clients and probe.probe.due(round, self.rounds)]
        self.start, self.local = start, {}
        if self.due:
            most = min(len(clients), max(probe.probe.models for probe in self.due))
            rng = generator(self.seed, "probe", round)
            self.selected = set(rng.choice(sorted(clients), most, replace=False).tolist())

    def after_client(self, update: Update) -> None:
        if self.due and update.client in self.selected:
            assert self.start is not None
            self.local[update.client] = replace(update.weights, int_buffers=self.start.int_buffers)

    def after_round(self, done: Round) -> None:
        if self.due:
            with done.timed("probe"):
                # If all clients were skipped there is no local model.
                measured = [(probe.name, self._measure(probe, done)) for probe in self.due if self.local]
            head = {"schema": SCHEMA, "round": done.number}
            done.probes += [{**head, "probe": name, **numbers} for name, numbers in measured if numbers]
            remember(self.metrics, self.run_state)
        # Frees the models before the next round.
        self.due, self.start, self.local = [], None, {}

    def _measure(self, probe: NamedProbe, done: Round) -> dict[str, Any]:
        assert self.start is not None
        metric, clients = probe.metric, sorted(self.local)[: probe.probe.models]
        models: list[tuple[Role, int | None, Weights]] = [
            ("start", None, self.start),
            *(("local", client, self.local[client]) for client in clients),
            # Not the averaged model: probes show what this round did.
            ("global", None, done.global_model),
        ]
        models = [model for model in models if model[0] in metric.sees]
        sets, logits = metric.rows(self.federation, clients, self.seed), "logits" in metric.needs
        # All models at once, which an engine may spread over its workers.
        weights = [model for _, _, model in models]
        evaluations = evaluate_on(self.evaluator, self.federation, weights, sets, logits)
        metric.reset()
        for (role, client, model), each in zip(models, evaluations, strict=True):
            counts = None if client is None else self.federation.counts(client).numpy()
            metric.update(Snapshot(done.number, role, each, model.parameters, client, counts))
        return dict(metric.compute())
