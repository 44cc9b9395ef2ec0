"""When and on what forgetting is measured during a run.

A probe looks at the models of one round: the one that the clients started from, those that they
trained, and the merged one. It draws its random numbers from keys of its own and only evaluates, so
a run gives the same bits with and without probes. What it finds is a line in probes.jsonl; the schema
stands in report/records.py.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from eunoe.config.options import Options
from eunoe.core.flat_model import Weights
from eunoe.core.rng import generator
from eunoe.engines.base import Engine, Rows
from eunoe.metrics.forgetting import DriftSum, per_class_accuracy, reweighted_accuracy
from eunoe.training.simulation import Simulation

# Validation parts below this size say too little: the test set in the client's class mix says more.
_FEW = 30


class Probe(Options):
    """A metric, the rounds at which it is measured, and the data."""

    metric: Literal["client_matrix", "local_per_class", "drift", "probability"] = Field(
        description="What is measured: every local model on every client's data, per-class accuracy and "
        "loss before and after local training and merge, distances, or mean output probabilities."
    )
    rounds: tuple[int, ...] = Field((), description="Rounds at which it is measured.")
    every: int = Field(0, ge=0, description="Measured every so many rounds; 0: not by this rule.")
    at: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(
        (), description="Measured at these fractions of the run."
    )
    data: Literal["auto", "participants", "clients", "test"] = Field(
        "auto",
        description="Whose data the client matrix is on: the participants' validation parts, those of all "
        "clients, or the test set re-weighted to each participant's class mix; auto takes the last "
        "where a validation part has under 30 samples.",
    )
    samples: int = Field(1000, ge=1, description="Size of the class-balanced part of the test set it uses.")
    models: int = Field(10, ge=1, description="Local models looked at in a round, at most.")

    def due(self, round: int, rounds: int) -> bool:
        """Whether the probe looks at a round of a run with so many rounds."""
        fractions = {max(1, int(fraction * rounds + 0.5)) for fraction in self.at}
        return round in self.rounds or round in fractions or bool(self.every and round % self.every == 0)


_TENTHS = tuple(step / 10 for step in range(1, 11))
STANDARD = (
    Probe(metric="client_matrix", at=_TENTHS),
    Probe(metric="local_per_class", at=tuple(step / 20 for step in range(1, 21))),
    Probe(metric="drift", at=_TENTHS),
)


@dataclass
class Watch:
    """The models of a round that is probed."""

    round: int
    probes: list[Probe]
    chosen: set[int]
    start: Weights
    local: dict[int, Weights] = field(default_factory=dict)

    def see(self, client: int, weights: Weights) -> None:
        """Keep a local model that the probes look at."""
        if client in self.chosen:
            self.local[client] = weights


class Prober:
    """Measures what the probes of a run ask for."""

    def __init__(self, simulation: Simulation, probes: tuple[Probe, ...], rounds: int) -> None:
        self.simulation, self.rounds = simulation, rounds
        self.probes = [probe for probe in probes if self._possible(probe)]

    def watch(self, round: int, clients: list[int], start: Weights) -> Watch | None:
        """What a round must keep for its probes; None if there are none."""
        due = [probe for probe in self.probes if probe.due(round, self.rounds)]
        if not due or not clients:
            return None
        most = max(probe.models for probe in due)
        rng = generator(self.simulation.context.seed, "probe", round)
        chosen = rng.choice(sorted(clients), min(most, len(clients)), replace=False)
        return Watch(round, due, {int(client) for client in chosen}, start)

    def measure(self, engine: Engine, watch: Watch, merged: Weights) -> list[dict[str, Any]]:
        """One record per probe of the round."""
        clients = sorted(watch.local)
        if not clients:
            # All of them sat the round out: there is no local model to look at.
            return []
        records = []
        for probe in watch.probes:
            seen = clients[: probe.models]
            models = [watch.start, *(watch.local[client] for client in seen), merged]
            found = getattr(self, f"_{probe.metric}")(engine, probe, seen, models)
            records.append({"schema": 1, "round": watch.round, "probe": probe.metric, **found})
        return records

    def test_part(self, samples: int) -> Rows:
        """A fixed part of the test set with as many samples of one class as of another."""
        labels, federation = self.simulation.federation.data.test.y.numpy(), self.simulation.federation
        order = generator(self.simulation.context.seed, "probe part").permutation(len(labels))
        share = max(1, samples // federation.classes)
        rows = [order[labels[order] == label][:share] for label in range(federation.classes)]
        return Rows("test", np.sort(np.concatenate(rows)))

    def _possible(self, probe: Probe) -> bool:
        federation = self.simulation.federation
        if probe.metric == "probability":
            return federation.public_train is not None and len(federation.public_train) > 0
        return len(federation.data.test) > 0 or probe.metric in ("client_matrix", "drift")

    def _counts(self, clients: list[int]) -> NDArray[np.float64]:
        return np.array(
            [self.simulation.federation.counts(client).tolist() for client in clients], np.float64
        )

    def _per_class(
        self, engine: Engine, models: list[Weights], where: Rows
    ) -> tuple[NDArray[np.float64], list[float]]:
        labels = self.simulation.federation.samples(where.source).y.numpy()[where.rows]
        predictions = engine.evaluate(models, where)
        accuracy = [
            per_class_accuracy(p.classes, labels, self.simulation.federation.classes) for p in predictions
        ]
        return np.array(accuracy), [float(p.losses.mean()) for p in predictions]

    def _local_per_class(
        self, engine: Engine, probe: Probe, clients: list[int], models: list[Weights]
    ) -> dict[str, Any]:
        accuracy, losses = self._per_class(engine, models, self.test_part(probe.samples))
        return {
            "clients": clients,
            "start": accuracy[0].tolist(),
            "local": accuracy[1:-1].tolist(),
            "merged": accuracy[-1].tolist(),
            "counts": self._counts(clients).astype(int).tolist(),
            "loss": {"start": losses[0], "local": losses[1:-1], "merged": losses[-1]},
        }

    def _client_matrix(
        self, engine: Engine, probe: Probe, clients: list[int], models: list[Weights]
    ) -> dict[str, Any]:
        federation = self.simulation.federation
        owners = list(range(len(federation))) if probe.data == "clients" else clients
        parts = [federation.rows(client, "validation") for client in owners]
        few = min(len(part) for part in parts) < _FEW
        if probe.data == "test" or (probe.data == "auto" and few and len(federation.data.test)):
            per_class, _ = self._per_class(engine, models[:-1], self.test_part(probe.samples))
            accuracy = reweighted_accuracy(per_class, self._counts(owners))
            where = "test"
        else:
            ends = np.cumsum([len(part) for part in parts])
            rows = np.concatenate(parts)
            place = Rows("clients", rows, np.repeat(np.array(owners), [len(part) for part in parts]))
            labels = federation.data.train.y.numpy()[rows]
            right = [p.classes == labels for p in engine.evaluate(models[:-1], place)]
            accuracy = np.array(
                [[cut.mean() if len(cut) else np.nan for cut in np.split(r, ends[:-1])] for r in right]
            )
            where = "validation"
        return {
            "models": clients,
            "data": owners,
            "on": where,
            "start": accuracy[0].tolist(),
            "after": accuracy[1:].tolist(),
        }

    def _drift(
        self, engine: Engine, probe: Probe, clients: list[int], models: list[Weights]
    ) -> dict[str, Any]:
        total, start = DriftSum(), models[0].parameters.double()
        for model in models[1:-1]:
            total.add((model.parameters.double() - start).cpu().numpy())
        drift = total.result()
        return {
            "clients": clients,
            "from_start": [float(length) for length in drift.from_start],
            "apart": drift.apart,
            "cosine": drift.cosine,
        }

    def _probability(
        self, engine: Engine, probe: Probe, clients: list[int], models: list[Weights]
    ) -> dict[str, Any]:
        rows = self.simulation.federation.public_train
        assert rows is not None
        predictions = engine.evaluate(models[1:-1], Rows("public", rows))
        return {
            "clients": clients,
            "probability": [(p.probability / len(rows)).tolist() for p in predictions],
            "counts": self._counts(clients).astype(int).tolist(),
        }
