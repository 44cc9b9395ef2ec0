"""The clients of a round: plain, private and secure cohorts train them and aggregate their updates.

All have one interface: `train`, then `aggregate`, `record` and `norm_stats`. A plain cohort checks every
update and records every client. A private one records nothing that depends on a client's data. A secure one
knows sums over all clients only.
"""

import copy
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from eunoe.core.flat_model import Vectors
from eunoe.engines.base import Engine
from eunoe.engines.compression import upload_bytes
from eunoe.engines.simulation import Simulation
from eunoe.engines.staleness import without_past
from eunoe.errors import Diverged, RunFailed
from eunoe.methods.base import ServerUpdate
from eunoe.server import secure_sum
from eunoe.server.update_checks import NormStats, first_not_finite
from eunoe.server.updates import Broadcast, Update, drop_vectors
from eunoe.simulation.hooks import Hook
from eunoe.store.schema import DroppedClient, MeansRecord, RoundRecord

logger = logging.getLogger(__name__)
# The lists of a record that does not show single clients.
_HIDDEN: RoundRecord = {"sizes": [], "steps": [], "loss_before": [], "loss_after": [], "update_norms": []}


class Cohort(ABC):
    """The clients of a round, and the aggregate of their updates."""

    def __init__(
        self,
        simulation: Simulation,
        clients: Sequence[int],
        broadcast: Broadcast,
        past: Mapping[str, Sequence[NormStats]],
    ) -> None:
        """`simulation` is that of the round; `past` has the norms of the last rounds' updates."""
        self.simulation, self.clients, self.broadcast = simulation, clients, broadcast
        self.aggregator = simulation.aggregator(broadcast, past)
        self.aggregate = self.aggregator.aggregate
        # How many clients sent an update, used or not.
        self.sent = 0
        self.dropped: list[DroppedClient] = []
        # The medians of this round's norms, by vector.
        self.norm_stats: dict[str, NormStats | None] = {}

    @abstractmethod
    def train(self, engine: Engine, hooks: Sequence[Hook]) -> None:
        """Train the clients and aggregate their updates."""

    @abstractmethod
    def record(self) -> RoundRecord:
        """Return the clients' part of the round's record."""

    @abstractmethod
    def upload_bytes(self) -> int:
        """Return the bytes that a client sends."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to aggregate: clients should train and none was used."""
        return self.simulation.method.trains_clients and not self.aggregate.clients

    def update_server(self, server: Vectors) -> ServerUpdate:
        """Aggregate the updates into the server's new weights and state, which must be finite."""
        if self.is_empty:
            return ServerUpdate(self.broadcast.weights, server)
        update = self.simulation.method.aggregate(server, self.aggregate, self.simulation.context)
        if (vector := first_not_finite(update.weights, update.server)) is not None:
            raise Diverged(
                f"the global model of round {self.broadcast.round} is not finite ({vector})"
                f"{self.largest_change()}; a smaller learning rate may help"
            )
        return update

    def largest_change(self) -> str:
        """Return whose change was the largest, as the end of a message; empty if that is unknown."""
        return ""

    def traffic(self) -> RoundRecord:
        """Return the bytes of the round: down to all clients, and up from those that sent an update."""
        if not self.simulation.method.aggregates:
            return {"bytes_up": 0, "bytes_down": 0}
        shared = without_past(self.broadcast.shared)
        vectors = (*self.broadcast.weights.vectors().values(), *shared.values())
        down = sum(vector.nbytes for vector in vectors)
        return {"bytes_up": self.sent * self.upload_bytes(), "bytes_down": len(self.clients) * down}


class PlainCohort(Cohort):
    """Clients whose updates the server sees and checks one by one."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # The updates in the aggregate without their vectors, and the norms of their changes.
        self.used: list[Update] = []
        self.norms: list[float] = []

    def train(self, engine: Engine, hooks: Sequence[Hook]) -> None:
        """Train the clients; an illegal update is dropped and its state discarded."""
        failed: list[DroppedClient] = []
        round = (self.simulation, self.clients, self.broadcast, self.aggregator)
        for examined in engine.aggregate(*round) if self.clients else ():
            update, problem = examined.update, examined.problem
            self.sent += update.skipped is None
            if problem is None:
                self.norms.append(examined.norm)
                for hook in hooks:
                    hook.after_client(update)
                self.used.append(drop_vectors(update))
            else:
                self.drop(update.client, problem)
                failed += self.dropped[-1:] if update.skipped is None else []
                engine.states.discard(update.client, self.broadcast.round)
        self.norm_stats = self.aggregator.norm_stats()
        if failed and not self.used:
            raise self.failure(**failed[0])

    def drop(self, client: int, reason: str) -> None:
        """Record that a client's update is not used."""
        self.dropped.append({"client": client, "reason": reason})

    def failure(self, client: int, reason: str) -> RunFailed:
        """Return the error of a round of which no update can be used; this is the first client's reason."""
        why = f"every client of round {self.broadcast.round} was dropped; client {client}: {reason}"
        if "finite" in reason or "norm" in reason:
            return Diverged(f"{why}; lower training.lr, or look for NaN in the data")
        return RunFailed(why)

    def largest_change(self) -> str:
        if not self.norms:
            return ""
        norm = max(self.norms)
        client, middle = self.used[self.norms.index(norm)].client, median(self.norms)
        return f"; the largest change is client {client}'s, with norm {norm:.3g} (median {middle:.3g})"

    def upload_bytes(self) -> int:
        weights, context, private = self.broadcast.weights, self.simulation.context, self.simulation.private
        buffers = sum(v.nbytes for v in (weights.float_buffers, weights.int_buffers))
        uploads = self.simulation.method.uploads(context)
        kept = 0 if private is None else private.bytes_kept(weights, uploads)
        return buffers + upload_bytes(self.simulation.compression, uploads, context) - kept

    def record(self) -> RoundRecord:
        used = self.used
        return {
            "clients": [update.client for update in used],
            "sizes": [update.size for update in used],
            "steps": [update.steps for update in used],
            "loss_before": [update.loss_before for update in used],
            "loss_after": [update.loss_after for update in used],
            "update_norms": [*self.norms],
            "forwards": sum(update.forwards for update in used),
            "backwards": sum(update.backwards for update in used),
            "dropped": self.dropped,
        }


class SecureCohort(Cohort):
    """Clients of which the server learns the sum of their updates only."""

    def train(self, engine: Engine, hooks: Sequence[Hook]) -> None:
        """Train the clients; the round fails if fewer than the threshold are in the sum."""
        secure = self.simulation.secure
        assert secure is not None
        round, clients = self.broadcast.round, self.clients
        total = engine.secure_sum(self.simulation, clients, self.broadcast, self.aggregator)
        for client in total.dropped:
            engine.states.discard(client, round)
        secure_sum.check_threshold(len(total.clients), len(clients), secure.threshold, round, total.dropped)
        reasons = {client: total.dropped[client] for client in clients if client in total.dropped}
        self.dropped = [{"client": client, "reason": reason} for client, reason in reasons.items()]
        self.numbers = secure_sum.decode_sum(secure, total, self.aggregate)
        self.sent = len(self.aggregate.clients)

    def upload_bytes(self) -> int:
        assert self.simulation.secure is not None
        return self.simulation.secure.fixed_point.bytes

    def record(self) -> RoundRecord:
        """Return means over all clients: no number of a single client is known."""
        numbers = self.numbers
        losses = numbers[secure_sum.LOSSES] or math.nan
        means: MeansRecord = {
            "size": numbers[secure_sum.SAMPLES] / numbers[secure_sum.CLIENTS],
            "steps": numbers[secure_sum.STEPS] / numbers[secure_sum.CLIENTS],
            "loss_before": numbers[secure_sum.LOSS_BEFORE] / losses,
            "loss_after": numbers[secure_sum.LOSS_AFTER] / losses,
            "update_norm": numbers[secure_sum.NORM] / numbers[secure_sum.CLIENTS],
        }
        return {
            "clients": self.aggregate.clients,
            **copy.deepcopy(_HIDDEN),
            "means": means,
            "forwards": int(numbers[secure_sum.FORWARDS]),
            "backwards": int(numbers[secure_sum.BACKWARDS]),
            "dropped": self.dropped,
        }


class _Private(Cohort):
    """Records nothing that depends on a client's data; without any update the noise is still added."""

    @property
    def is_empty(self) -> bool:
        return False

    def traffic(self) -> RoundRecord:
        self.sent = len(self.clients)
        return super().traffic()

    def largest_change(self) -> str:
        return ""

    def record(self) -> RoundRecord:
        privacy = self.simulation.context.privacy
        # Clients that were drawn in secret stay unnamed.
        secret = privacy is not None and privacy.secret
        clients: RoundRecord = {"clients": list(self.clients)}
        if secret:
            clients = {"clients": [], "participants": len(self.clients)}
        return {**clients, **copy.deepcopy(_HIDDEN), "dropped": []}


class PrivateCohort(_Private, PlainCohort):
    """Clients whose updates are clipped and summed with noise; drops are in the log only."""

    def drop(self, client: int, reason: str) -> None:
        super().drop(client, reason)
        logger.warning("round %d: client %d dropped: %s", self.broadcast.round, client, reason)

    def failure(self, client: int, reason: str) -> RunFailed:
        return RunFailed(f"no update of round {self.broadcast.round} could be used; the log has the reasons")


class PrivateSecureCohort(_Private, SecureCohort):
    """Clients that clip their updates themselves, of which the server learns the sum only."""


def find_cohort(simulation: Simulation) -> type[Cohort]:
    """Return the kind of cohort that the configuration asks for."""
    private = simulation.context.privacy is not None
    if simulation.secure is not None:
        return PrivateSecureCohort if private else SecureCohort
    return PrivateCohort if private else PlainCohort
