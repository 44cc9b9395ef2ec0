"""Measures the models of single rounds: the start model, the local models and the global model.

A probe draws its random numbers from its own keys and only evaluates, so a run gives the same bits with
and without probes. Its result is a line in probes.jsonl; the schema is in records/reader.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eunoe.config.options import Probe
from eunoe.core.flat_model import Weights
from eunoe.core.rng import generator
from eunoe.data.federation import Federation
from eunoe.metrics.base import Evaluator, Metric, Role, Snapshot
from eunoe.metrics.evaluation import evaluate_at
from eunoe.metrics.named import measures, probe_metric


@dataclass(frozen=True)
class Planned:
    """A probe, its metric and the name under which that is recorded."""

    probe: Probe
    name: str
    metric: Metric


@dataclass
class ProbedRound:
    """The models of a probed round that its probes need."""

    round: int
    plans: Sequence[Planned]
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
        plans = [Planned(probe, *probe_metric(probe)) for probe in probes]
        self.plans = [plan for plan in plans if measures(plan.metric, federation)]

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics by unique names."""
        return {f"probe {number} {plan.name}": plan.metric for number, plan in enumerate(self.plans)}

    def watch(self, round: int, clients: Sequence[int], start: Weights) -> ProbedRound | None:
        """What a round must keep for its probes; None if there are none."""
        due = [plan for plan in self.plans if plan.probe.due(round, self.rounds)]
        if not due or not clients:
            return None
        most = max(plan.probe.models for plan in due)
        rng = generator(self.seed, "probe", round)
        chosen = rng.choice(sorted(clients), min(most, len(clients)), replace=False)
        return ProbedRound(round, due, {int(client) for client in chosen}, start)

    def measure(self, evaluator: Evaluator, seen: ProbedRound, merged: Weights) -> list[dict[str, Any]]:
        """One record per probe of the round."""
        # If all clients were skipped there is no local model.
        found = [(plan, self._numbers(evaluator, plan, seen, merged)) for plan in seen.plans if seen.local]
        return [
            {"schema": 1, "round": seen.round, "probe": plan.name, **numbers}
            for plan, numbers in found
            if numbers
        ]

    def _numbers(
        self, evaluator: Evaluator, plan: Planned, seen: ProbedRound, merged: Weights
    ) -> dict[str, Any]:
        metric, clients = plan.metric, sorted(seen.local)[: plan.probe.models]
        models: list[tuple[Role, int | None, Weights]] = [
            ("start", None, seen.start),
            *(("local", client, seen.local[client]) for client in clients),
            ("merged", None, merged),
        ]
        models = [model for model in models if model[0] in metric.sees]
        where = metric.rows(self.federation, clients, self.seed)
        # All models at once, which an engine may spread over its workers.
        places = evaluate_at(
            evaluator, self.federation, [model[2] for model in models], where, "logits" in metric.needs
        )
        metric.reset()
        for (role, client, weights), predicted in zip(models, places, strict=True):
            counts = None if client is None else self.federation.counts(client).numpy()
            metric.update(Snapshot(seen.round, role, predicted, weights.parameters, client, counts))
        return dict(metric.compute())
