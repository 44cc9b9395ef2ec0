"""The round loop: select clients, broadcast, train, aggregate, update the server; hooks do the rest."""

from collections.abc import Sequence
from random import SystemRandom
from typing import Any

import numpy as np

from eunoe.core.rng import draw_clients, generator
from eunoe.engines.base import Engine
from eunoe.engines.simulation import Simulation
from eunoe.engines.staleness import add_past, delay_of, vectors_sent
from eunoe.errors import RunFailed
from eunoe.methods.base import ServerUpdate
from eunoe.server.averaging import update_average
from eunoe.server.update_checks import append_stats
from eunoe.server.updates import Broadcast
from eunoe.simulation.cohorts import Cohort, find_cohort
from eunoe.simulation.hooks import Hook, Round
from eunoe.store.checkpoints import RunState, evaluated_model
from eunoe.store.schema import SCHEMA, RoundRecord
from eunoe.system.signals import uninterrupted

# The most clients whose presence is checked in a round: in total, and for each participant.
MAX_CHECKED, MAX_CHECKED_EACH = 1_000, 100


def run_rounds(
    simulation: Simulation, engine: Engine, state: RunState, rounds: int, hooks: Sequence[Hook] = ()
) -> str:
    """Run rounds until the run ends; return the reason why it ended."""
    reason = next(filter(None, [hook.before_run() for hook in hooks]), "")
    try:
        while not reason and state.round < rounds:
            reason = run_round(simulation, engine, state, hooks).reason
    except (RunFailed, KeyboardInterrupt):
        # A round that failed or was interrupted before its end has changed nothing yet.
        if state.recorded == state.round:
            _end(hooks)
        raise
    _end(hooks)
    return reason or f"all {rounds} rounds done"


def _end(hooks: Sequence[Hook]) -> None:
    with uninterrupted():
        for hook in hooks:
            hook.after_run()


def run_round(simulation: Simulation, engine: Engine, state: RunState, hooks: Sequence[Hook] = ()) -> Round:
    """Run one round: select clients, train them, aggregate their updates, update the server."""
    started = engine.clock()
    simulation = simulation.in_round(state.round + 1)
    context, method = simulation.context, simulation.method
    clients = select_clients(simulation)
    weights = state.weights
    if (private := simulation.private) is not None and private.start_from_mean:
        weights = private.put_mean(weights, state.private)
    broadcast = Broadcast(context.round, weights, method.broadcast(state.server, context))
    broadcast = add_past(broadcast, state.past)
    for hook in hooks:
        hook.before_training(context.round, clients, state.weights)
    cohort = find_cohort(simulation)(simulation, clients, broadcast, state.norms)
    cohort.train(engine, hooks)
    for hook in hooks:
        hook.before_aggregation(context.round)
    update = cohort.update_server(state.server)
    # An interrupt waits until the hooks are done, so that it meets a state that can be saved.
    with uninterrupted():
        finished = update_state(simulation, engine, state, cohort, update)
        finished.seconds["train"] = engine.clock() - started
        for hook in hooks:
            hook.after_round(finished)
        state.recorded = context.round
    return finished


def update_state(
    simulation: Simulation, engine: Engine, state: RunState, cohort: Cohort, update: ServerUpdate
) -> Round:
    """Update the run state after a round; return the round with its record."""
    context, staleness, trained = simulation.context, simulation.staleness, cohort.record()
    # The round first: from here on the state is not whole until the round is recorded.
    state.round = context.round
    for client in cohort.aggregate.clients:
        if (private := simulation.private) is not None:
            before, now = engine.states.load(client), engine.states.load(client, context.round)
            state.private = private.replace(state.private, before, now)
        engine.states.accept(client, context.round)
    state.weights, state.server = update.weights, update.server
    if staleness is not None:
        state.past = [vectors_sent(cohort.broadcast), *state.past][: staleness.max]
    state.norms = append_stats(state.norms, cohort.norm_stats)
    reported = simulation.method.reported(state.server, state.weights)
    if simulation.averaging is not None:
        state.average = update_average(simulation.averaging, state.average, reported)
    warnings = [*update.warnings, *cohort.aggregate.warnings()]
    record: RoundRecord = {
        "schema": SCHEMA,
        "round": context.round,
        "lr": context.lr,
        **trained,
        **cohort.traffic(),
        **({"server": update.record} if update.record else {}),
        **({"delays": [delay_of(staleness, context, c) for c in trained["clients"]]} if staleness else {}),
        **({"warnings": warnings} if warnings else {}),
    }
    model = evaluated_model(simulation, state)
    return Round(context.round, model, reported, dict[str, Any](record), clock=engine.clock)


def select_clients(simulation: Simulation) -> list[int]:
    """Select the clients of a round, in the order in which they train and are summed: large ones first."""
    if not simulation.method.trains_clients:
        return []
    context, federation = simulation.context, simulation.federation
    count, participants = context.data.clients, context.participants
    if context.privacy is not None and context.privacy.hides_clients:
        # Epsilon is computed for a sample that nobody knows.
        selected = np.array(SystemRandom().sample(range(count), participants))
    else:
        selected = draw_clients(context.seed, context.round, count, participants)
    if federation.changes is not None:
        selected = np.array(replace_absent(simulation, [int(client) for client in selected]), np.int64)
    sizes = federation.sizes_of(selected)
    return [int(client) for client in selected[np.lexsort((selected, -sizes))]]


def replace_absent(simulation: Simulation, drawn: Sequence[int]) -> list[int]:
    """Return the drawn clients that are present, and others in place of those that are not, if there are."""
    context, federation = simulation.context, simulation.federation
    present = [client for client in drawn if federation.present(client)]
    asked, many = set(drawn), len(drawn)
    most = min(context.data.clients, max(MAX_CHECKED, MAX_CHECKED_EACH * len(drawn)))
    while len(present) < len(drawn) and many < most:
        # Ever more are asked, so that the first few that are present cost little.
        many = min(4 * many, most)
        rng = generator(context.seed, "clients in their place", context.round)
        for client in map(int, rng.choice(context.data.clients, many, replace=False)):
            if len(present) == len(drawn):
                break
            if client not in asked:
                asked.add(client)
                present += [client] if federation.present(client) else []
    return present
