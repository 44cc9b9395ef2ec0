"""The clients of a round under secure aggregation: who took part, and sums over all of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from eunoe.engines.base import Engine
from eunoe.engines.client import Broadcast
from eunoe.engines.secure_sum import (
    BACKWARDS,
    CLIENTS,
    FORWARDS,
    LOSS_AFTER,
    LOSS_BEFORE,
    LOSSES,
    NORM,
    SAMPLES,
    STEPS,
    aggregate_of,
    enough,
)
from eunoe.engines.simulation import Simulation
from eunoe.engines.update_checks import Usual
from eunoe.server.aggregate import Aggregate
from eunoe.store.schema import DroppedClient, MeansRecord, RoundRecord


@dataclass
class SummedCohort:
    """The aggregate of a round, and the sums of its clients' numbers."""

    aggregate: Aggregate
    numbers: dict[str, float]
    dropped: list[DroppedClient] = field(default_factory=list)
    # Norms of single updates are not known.
    usual: dict[str, Usual | None] = field(default_factory=dict)

    @property
    def sent(self) -> int:
        """Clients whose update is in the sum."""
        return len(self.aggregate.clients)

    def largest(self) -> str:
        """Nothing: whose change was the largest is not known."""
        return ""

    def record(self) -> RoundRecord:
        """The clients' part of a round's record: no number of a single client, means over all instead."""
        numbers = self.numbers
        losses = numbers[LOSSES] or math.nan
        means: MeansRecord = {
            "size": numbers[SAMPLES] / numbers[CLIENTS],
            "steps": numbers[STEPS] / numbers[CLIENTS],
            "loss_before": numbers[LOSS_BEFORE] / losses,
            "loss_after": numbers[LOSS_AFTER] / losses,
            "update_norm": numbers[NORM] / numbers[CLIENTS],
        }
        return {
            "clients": self.aggregate.clients,
            "sizes": [],
            "steps": [],
            "loss_before": [],
            "loss_after": [],
            "update_norms": [],
            "means": means,
            "forwards": int(numbers[FORWARDS]),
            "backwards": int(numbers[BACKWARDS]),
            "dropped": self.dropped,
        }


def train_and_sum(
    simulation: Simulation, engine: Engine, clients: Sequence[int], broadcast: Broadcast
) -> SummedCohort:
    """Train clients and sum their updates; the round fails if fewer than the threshold are in the sum."""
    found = engine.train_summed(clients, broadcast)
    for client in found.dropped:
        engine.states.discard(client, broadcast.round)
    enough(len(found.clients), len(clients), simulation.threshold, broadcast.round, found.dropped)
    dropped: list[DroppedClient] = [
        {"client": client, "reason": found.dropped[client]} for client in clients if client in found.dropped
    ]
    return SummedCohort(*aggregate_of(simulation, found, broadcast), dropped)
