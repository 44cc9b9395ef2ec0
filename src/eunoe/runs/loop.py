"""The round loop: choose, train, merge, measure, record, checkpoint."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from eunoe.config.schema import Config
from eunoe.engines.base import Engine
from eunoe.errors import Diverged, RunFailed
from eunoe.metrics.evaluation import Evaluator
from eunoe.runs.folder import RunFolder
from eunoe.metrics.forgetting import fedntd_score, round_forgetting
from eunoe.training.simulation import Simulation
from eunoe.training.aggregation import Aggregator
from eunoe.methods.base import Merged
from eunoe.metrics.personal import personal_accuracy
from eunoe.metrics.probes import Prober, Watch
from eunoe.core.rng import generator
from eunoe.runs.state import RunState
from eunoe.training.client import Broadcast, Update
from eunoe.core.flat_model import Vectors, Weights

Record = dict[str, Any]
SCHEMA = 1


def run_rounds(
    simulation: Simulation,
    config: Config,
    engine: Engine,
    folder: RunFolder,
    run_state: RunState,
    on_round: Callable[[Record], None],
) -> str:
    """Go on with a run until it ends; give the reason why it ended."""
    evaluator = Evaluator(simulation, config.evaluation.validation, config.evaluation.test)
    prober = Prober(simulation, config.probes, config.rounds)
    began, saved = time.monotonic(), time.monotonic()
    # A run that was killed right after its last round has nothing left to do.
    reason = stop_reason(config, folder.last_record(), 0.0)
    while not reason:
        if run_state.round >= config.rounds:
            reason = f"all {config.rounds} rounds done"
            break
        clock = time.monotonic()
        try:
            record, watch = one_round(simulation, engine, run_state, prober)
        except RunFailed:
            folder.checkpoint(run_state, engine.states)
            raise
        trained = time.monotonic()
        if evaluated(run_state.round, config):
            record |= measure(simulation, engine, evaluator, run_state)
        reported = simulation.method.reported(run_state.server, run_state.weights)
        reason = stop_reason(config, record, time.monotonic() - began)
        if config.evaluation.personal and (reason or run_state.round >= config.rounds):
            record |= personal_accuracy(simulation, engine, reported, config.evaluation.personal)
        measured = time.monotonic()
        probed = prober.measure(engine, watch, reported) if watch else []
        done = time.monotonic()
        timing = {"train": trained - clock, "evaluate": measured - trained, "probe": done - measured}
        run_state.seconds += done - clock
        folder.record(record, {"round": run_state.round, **timing}, probed)
        if time.monotonic() - saved >= config.checkpoint_seconds:
            folder.checkpoint(run_state, engine.states)
            saved = time.monotonic()
        on_round(record)
    folder.checkpoint(run_state, engine.states)
    return reason


def one_round(simulation: Simulation, engine: Engine, run_state: RunState, prober: Prober) -> tuple[Record, Watch | None]:
    """Choose clients, train them, merge what they learned; the course then stands after the round."""
    round = run_state.round + 1
    context, method = simulation.context_in(round), simulation.method
    clients = choose(simulation, round)
    broadcast = Broadcast(round, run_state.weights, method.broadcast(run_state.server, context))
    watch = prober.watch(round, clients, run_state.weights)
    aggregator = Aggregator(method, run_state.weights, context)
    norms: list[float] = []
    used: list[Update] = []
    dropped: list[Record] = []
    failed: list[Record] = []
    sent = 0
    for update in engine.train(clients, broadcast) if clients else ():
        sent += update.skipped is None
        if (problem := aggregator.problem(update)) is not None:
            dropped.append({"client": update.client, "reason": problem})
            failed += dropped[-1:] if update.skipped is None else []
            engine.states.discard(update.client, round)
        else:
            norms.append(aggregator.add(update))
            if watch:
                watch.see(update.client, update.weights)
            used.append(stripped(update))
    if failed and not used:
        first = failed[0]
        why = f"every client of round {round} was dropped; client {first['client']}: {first['reason']}"
        if "finite" in first["reason"]:
            raise Diverged(f"{why}; lower training.lr, or look for NaN in the data")
        raise RunFailed(why)
    if used or not clients:
        merged = method.merge(run_state.server, aggregator.aggregate, context)
    else:
        # None of them had anything to teach.
        merged = Merged(run_state.weights, run_state.server)
    if not bool(torch.isfinite(merged.weights.parameters).all()):
        raise Diverged(f"the merged model of round {round} is not finite; a smaller learning rate may help")
    for update in used:
        engine.states.accept(update.client, round)
    run_state.weights, run_state.server, run_state.round = merged.weights, merged.server, round
    record = {
        "schema": SCHEMA,
        "round": round,
        "lr": context.lr,
        "clients": [update.client for update in used],
        "sizes": [update.size for update in used],
        "steps": [update.steps for update in used],
        "loss_before": [update.loss_before for update in used],
        "loss_after": [update.loss_after for update in used],
        "update_norms": norms,
        "forwards": sum(update.forwards for update in used),
        "backwards": sum(update.backwards for update in used),
        "dropped": dropped,
        **traffic(simulation, broadcast, len(clients), sent),
        **({"server": merged.record} if merged.record else {}),
        **({"warnings": list(merged.warnings)} if merged.warnings else {}),
    }
    return record, watch


def choose(simulation: Simulation, round: int) -> list[int]:
    """The clients of a round, in the order in which they train and count: large ones first."""
    if not simulation.method.trains_clients:
        return []
    context = simulation.context
    chosen = generator(context.seed, "clients", round).choice(
        context.clients, context.participants, replace=False, shuffle=False
    )
    sizes = simulation.federation.sizes[chosen]
    return [int(client) for client in chosen[np.lexsort((chosen, -sizes))]]


def stripped(update: Update) -> Update:
    """An update without its vectors, which a round with a thousand clients could not hold."""
    empty = torch.empty(0)
    update.weights, update.uploads = Weights(empty, empty, empty), {}
    return update


def traffic(simulation: Simulation, broadcast: Broadcast, clients: int, sent: int) -> Record:
    """Bytes that a round moves: to all of its clients, and back from those that sent an update."""
    weights = broadcast.weights
    model = sum(v.numel() * v.itemsize for v in (weights.parameters, weights.float_buffers, weights.int_buffers))
    extra = sum(v.numel() * v.itemsize for v in broadcast.shared.values())
    size = weights.parameters.itemsize
    up = sum(u.size * size if u.bytes is None else u.bytes for u in simulation.method.uploads(simulation.context).values())
    return {"bytes_up": sent * (model + up), "bytes_down": clients * (model + extra)}


def evaluated(round: int, config: Config) -> bool:
    """Whether the model after a round is evaluated."""
    every, last = config.evaluation.every, config.evaluation.last
    if round > config.rounds - last:
        return True
    return every > 0 and (round % every == 0 or (round + 1) % every == 0)


def measure(simulation: Simulation, engine: Engine, evaluator: Evaluator, run_state: RunState) -> Record:
    """Evaluate the merged model and say what it forgot since the round before."""
    reported = simulation.method.reported(run_state.server, run_state.weights)
    record: Record = dict(evaluator(engine, reported))
    where = "test" if "test" in record else "validation"
    if where not in record:
        return record
    per_class = record[where]["per_class"]
    before = run_state.per_class if run_state.per_class_round == run_state.round - 1 else None
    record["forgetting"] = {
        "on": where,
        "round": None if before is None else round_forgetting(before, per_class),
        "fedntd": fedntd_score([run_state.per_class_best, per_class]) if run_state.per_class_best else None,
    }
    run_state.per_class, run_state.per_class_round = per_class, run_state.round
    best = np.fmax(run_state.per_class_best or per_class, per_class)
    run_state.per_class_best = [float(value) for value in best]
    # The test set has no say in which model is best.
    accuracy = record["validation"]["accuracy"] if "validation" in record else -1.0
    if accuracy > run_state.best_accuracy:
        run_state.best, run_state.best_accuracy = reported, accuracy
    return record


def stop_reason(config: Config, record: Record, seconds: float) -> str:
    """Why a run ends after this round, or nothing."""
    for place, target in (("validation", config.stop.target), ("test", config.stop.test_target)):
        if target is not None and place in record and record[place]["accuracy"] >= target:
            return f"{place} accuracy reached {target:g}"
    if config.stop.hours is not None and seconds >= config.stop.hours * 3600:
        return f"{config.stop.hours:g} hours passed"
    return ""
