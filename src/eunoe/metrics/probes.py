"""Probes: measure the models of single rounds, which are the start model, local models and the global model.

A probe draws random numbers from its own keys and only evaluates, so a run gives the same bits with and
without probes. Its result is a line in probes.jsonl.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eunoe.config.options import Probe
from eunoe.core.flat_model import Weights
from eunoe.core.rng import generator
from eunoe.data.federation import Federation
from eunoe.metrics.base import Evaluator, Metric, Role, Snapshot
from eunoe.metrics.evaluation import evaluate_on
from eunoe.metrics.named import can_measure, probe_metric


@dataclass(frozen=True)
class NamedProbe:
    """A probe, its metric and the name under which that is recorded."""

    probe: Probe
    name: str
    metric: Metric


@dataclass
class ProbedRound:
    """The models of a round that its probes need."""

    round: int
    probes: Sequence[NamedProbe]
    chosen: set[int]
    start: Weights
    local: dict[int, Weights] = field(default_factory=dict)

    def see(self, client: int, weights: Weights) -> None:
        """Keep a local model that the probes need."""
        if client in self.chosen:
            self.local[client] = weights


class Prober:
    """Runs the probes of a run."""

    def __init__(self, federation: Federation, seed: int, probes: Sequence[Probe], rounds: int) -> None:
        self.federation, self.seed, self.rounds = federation, seed, rounds
        named = [NamedProbe(probe, *probe_metric(probe)) for probe in probes]
        self.probes = [probe for probe in named if can_measure(probe.metric, federation)]

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics by unique names."""
        return {f"probe {number} {probe.name}": probe.metric for number, probe in enumerate(self.probes)}

    def watch(self, round: int, clients: Sequence[int], start: Weights) -> ProbedRound | None:
        """Return what keeps a round's models for its probes; None if no probe is due."""
        due = [probe for probe in self.probes if probe.probe.due(round, self.rounds)]
        if not due or not clients:
            return None
        most = max(probe.probe.models for probe in due)
        rng = generator(self.seed, "probe", round)
        chosen = rng.choice(sorted(clients), min(most, len(clients)), replace=False)
        return ProbedRound(round, due, {int(client) for client in chosen}, start)

    def measure(self, evaluator: Evaluator, probed: ProbedRound, model: Weights) -> list[dict[str, Any]]:
        """Return one record per probe of a round that ended with this global model."""
        # If all clients were skipped there is no local model.
        probes = probed.probes if probed.local else ()
        measured = [(probe.name, self._compute(evaluator, probe, probed, model)) for probe in probes]
        head = {"schema": 1, "round": probed.round}
        return [{**head, "probe": name, **numbers} for name, numbers in measured if numbers]

    def _compute(
        self, evaluator: Evaluator, probe: NamedProbe, probed: ProbedRound, model: Weights
    ) -> dict[str, Any]:
        metric, clients = probe.metric, sorted(probed.local)[: probe.probe.models]
        models: list[tuple[Role, int | None, Weights]] = [
            ("start", None, probed.start),
            *(("local", client, probed.local[client]) for client in clients),
            ("global", None, model),
        ]
        models = [model for model in models if model[0] in metric.sees]
        sets, logits = metric.rows(self.federation, clients, self.seed), "logits" in metric.needs
        # All models at once, which an engine may spread over its workers.
        evaluations = evaluate_on(evaluator, self.federation, [model[2] for model in models], sets, logits)
        metric.reset()
        for (role, client, weights), each in zip(models, evaluations, strict=True):
            counts = None if client is None else self.federation.counts(client).numpy()
            metric.update(Snapshot(probed.round, role, each, weights.parameters, client, counts))
        return dict(metric.compute())
