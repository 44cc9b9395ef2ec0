"""The round loop: select clients, broadcast, train, aggregate, update the server; hooks do the rest."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from eunoe.core.flat_model import Weights
from eunoe.engines.aggregation import Aggregator
from eunoe.engines.base import Engine
from eunoe.engines.client import Broadcast, Update, without_vectors
from eunoe.engines.simulation import Simulation
from eunoe.engines.update_checks import Usual, not_finite, remembered
from eunoe.errors import Diverged, RunFailed
from eunoe.methods.base import ServerUpdate
from eunoe.methods.context import RoundContext
from eunoe.server.aggregate import Aggregate
from eunoe.server.averaging import updated
from eunoe.simulation.round_record import private_record, traffic
from eunoe.simulation.selection import select_clients
from eunoe.simulation.summed_cohort import SummedCohort, train_and_sum
from eunoe.store.schema import SCHEMA, DroppedClient, RoundRecord
from eunoe.store.state import RunState, evaluated_model
from eunoe.system.signals import uninterrupted

logger = logging.getLogger(__name__)
Record = dict[str, Any]


@dataclass
class Round:
    """A finished round, as hooks read it and add to it."""

    number: int
    # The model that is evaluated, which need not be the one broadcast to clients.
    model: Weights
    # The model that the method reports after this round alone: the same unless models are averaged.
    global_model: Weights
    record: Record
    probes: list[Record] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"train": 0.0, "evaluate": 0.0, "probe": 0.0})
    # Why the run ends after this round; empty if it continues.
    reason: str = ""

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time spent in the block to a step."""
        clock = time.monotonic()
        yield
        self.seconds[step] += time.monotonic() - clock


class Hook:
    """A callback of the round loop; every method is optional."""

    def before_run(self) -> str:
        """Why the run has nothing left to do; empty if it has."""
        return ""

    def before_training(self, round: int, clients: Sequence[int], start: Weights) -> None:
        """Called when the clients of a round are selected, with the weights they start from."""

    def reads_updates(self) -> bool:
        """Whether `after_client` reads the vectors of this round's updates."""
        return False

    def after_client(self, update: Update) -> None:
        """Called after an update was added to the aggregate; its vectors are dropped after this."""

    def before_aggregation(self, round: int) -> None:
        """Called when the updates of a round are summed and before anything is made of the sums."""

    def after_round(self, done: Round) -> None:
        """Called after a round, with the run state updated."""

    def after_run(self) -> None:
        """Called when the run ends, normally or because a round failed."""


def run_rounds(
    simulation: Simulation, engine: Engine, run_state: RunState, rounds: int, hooks: Sequence[Hook] = ()
) -> str:
    """Run rounds until the run ends; return the reason why it ended."""
    reason = next(filter(None, [hook.before_run() for hook in hooks]), "")
    try:
        while not reason and run_state.round < rounds:
            reason = one_round(simulation, engine, run_state, hooks).reason
    except (RunFailed, KeyboardInterrupt):
        # A round that failed or was interrupted before its end has changed nothing yet.
        if run_state.recorded == run_state.round:
            _end(hooks)
        raise
    _end(hooks)
    return reason or f"all {rounds} rounds done"


def _end(hooks: Sequence[Hook]) -> None:
    with uninterrupted():
        for hook in hooks:
            hook.after_run()


def one_round(
    simulation: Simulation, engine: Engine, run_state: RunState, hooks: Sequence[Hook] = ()
) -> Round:
    """Run one round, update the run state and call the hooks."""
    clock, round = time.monotonic(), run_state.round + 1
    simulation = simulation.in_round(round)
    context, method = simulation.context_in(round), simulation.method
    # 1. Select clients.
    clients = select_clients(simulation, round)
    # 2. Broadcast.
    broadcast = Broadcast(round, run_state.weights, method.broadcast(run_state.server, context))
    for hook in hooks:
        hook.before_training(round, clients, run_state.weights)
    # 3. Train the clients and 4. aggregate their updates as they arrive and are found sound.
    cohort: Cohort | SummedCohort
    if simulation.fixed_point is None:
        cohort = train_and_aggregate(simulation, engine, clients, broadcast, context, hooks, run_state.norms)
    else:
        cohort = train_and_sum(simulation, engine, clients, broadcast)
    # 5. Update the server.
    for hook in hooks:
        hook.before_aggregation(round)
    if cohort.aggregate.clients or not method.trains_clients or context.privacy is not None:
        update = method.aggregate(run_state.server, cohort.aggregate, context)
    else:
        # No client was there, or every one was skipped: there is nothing to aggregate.
        update = ServerUpdate(run_state.weights, run_state.server)
    if (vector := not_finite(update.weights, update.server)) is not None:
        raise Diverged(
            f"the global model of round {round} is not finite ({vector}){cohort.largest()}; "
            "a smaller learning rate may help"
        )
    # From here to the end of the hooks an interrupt waits, so that it meets a state that can be saved.
    with uninterrupted():
        sent = cohort.sent if context.privacy is None else len(clients)
        record: RoundRecord = {
            "schema": SCHEMA,
            "round": round,
            "lr": context.lr,
            **(cohort.record() if context.privacy is None else private_record(clients, context)),
            **traffic(simulation, broadcast, len(clients), sent),
            **({"server": update.record} if update.record else {}),
            **({"warnings": list(update.warnings)} if update.warnings else {}),
        }
        done = update_state(simulation, engine, run_state, cohort, update, record)
        done.seconds["train"] = time.monotonic() - clock
        for hook in hooks:
            hook.after_round(done)
        run_state.recorded = round
    return done


def update_state(
    simulation: Simulation,
    engine: Engine,
    run_state: RunState,
    cohort: "Cohort | SummedCohort",
    update: ServerUpdate,
    record: RoundRecord,
) -> Round:
    """Take what a round has made into the run state."""
    # The round first: from here on the state is not whole until the round is recorded.
    run_state.round = round = record["round"]
    for client in cohort.aggregate.clients:
        engine.states.accept(client, round)
    run_state.weights, run_state.server = update.weights, update.server
    run_state.norms = remembered(run_state.norms, cohort.usual)
    reported = simulation.method.reported(run_state.server, run_state.weights)
    if simulation.averaging is not None:
        run_state.average = updated(simulation.averaging, run_state.average, reported)
    return Round(round, evaluated_model(simulation, run_state), reported, dict[str, Any](record))


@dataclass
class Cohort:
    """The aggregate of a round, and the updates in it without their vectors."""

    aggregate: Aggregate
    used: list[Update] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    dropped: list[DroppedClient] = field(default_factory=list)
    # Clients that sent an update, used or not.
    sent: int = 0
    # The usual norms of the updates in the aggregate, by vector.
    usual: dict[str, Usual | None] = field(default_factory=dict)

    def largest(self) -> str:
        """Whose change was the largest, and how large."""
        if not self.norms:
            return ""
        norm = max(self.norms)
        client, usual = self.used[self.norms.index(norm)].client, median(self.norms)
        return f"; the largest change is client {client}'s, of norm {norm:.3g} with a median of {usual:.3g}"

    def record(self) -> RoundRecord:
        """The clients' part of a round's record."""
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


def train_and_aggregate(
    simulation: Simulation,
    engine: Engine,
    clients: Sequence[int],
    broadcast: Broadcast,
    context: RoundContext,
    hooks: Sequence[Hook],
    past: Mapping[str, Sequence[Usual]],
) -> Cohort:
    """Train clients and aggregate their updates; an unusable update is dropped and its state discarded."""
    aggregator = Aggregator(
        simulation.method, broadcast.weights, context, past, simulation.limits, broadcast.shared
    )
    cohort = Cohort(aggregator.aggregate)
    failed: list[DroppedClient] = []
    vectors = any(hook.reads_updates() for hook in hooks)
    for update, norm, problem in engine.aggregate(clients, broadcast, aggregator, vectors) if clients else ():
        cohort.sent += update.skipped is None
        if problem is not None:
            if context.privacy is not None:
                logger.warning("round %d: client %d dropped: %s", broadcast.round, update.client, problem)
            cohort.dropped.append({"client": update.client, "reason": problem})
            failed += cohort.dropped[-1:] if update.skipped is None else []
            engine.states.discard(update.client, broadcast.round)
        else:
            cohort.norms += [norm] if context.privacy is None else []
            for hook in hooks:
                hook.after_client(update)
            cohort.used.append(without_vectors(update))
    cohort.usual = aggregator.usual()
    if failed and not cohort.used:
        if context.privacy is not None:
            raise RunFailed(f"no update of round {broadcast.round} could be used; the log says why")
        client, reason = failed[0]["client"], failed[0]["reason"]
        why = f"every client of round {broadcast.round} was dropped; client {client}: {reason}"
        if "finite" in reason or "norm" in reason:
            raise Diverged(f"{why}; lower training.lr, or look for NaN in the data")
        raise RunFailed(why)
    return cohort
