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
from eunoe.training.simulation import Job
from eunoe.training.aggregation import Sums
from eunoe.methods.base import Merged, Vectors
from eunoe.metrics.personal import personal_accuracy
from eunoe.metrics.probes import Prober, Watch
from eunoe.core.rng import generator
from eunoe.training.client import Received, Update
from eunoe.core.flat_model import Weights

Record = dict[str, Any]
SCHEMA = 1


@dataclass
class Course:
    """How far a run has come: all that the next round depends on."""

    weights: Weights
    server: Vectors
    round: int = 0
    best: Weights | None = None
    best_accuracy: float = -1.0
    # Per-class accuracy of the round before, and the best of every class so far.
    per_class: list[float] | None = None
    per_class_round: int = 0
    per_class_best: list[float] | None = None
    seconds: float = 0.0


def start_course(job: Job) -> Course:
    """The course of a run before its first round; the server's vectors are on the CPU, whatever trains."""
    weights = job.model.weights.copy().to("cpu")
    server = job.method.start(weights, job.setting)
    return Course(weights, {**server, **job.setting.server_step.start(weights.parameters)})


def run_rounds(
    job: Job,
    config: Config,
    engine: Engine,
    folder: RunFolder,
    course: Course,
    on_round: Callable[[Record], None],
) -> str:
    """Go on with a run until it ends; give the reason why it ended."""
    evaluator = Evaluator(job, config.evaluation.validation, config.evaluation.test)
    prober = Prober(job, config.probes, config.rounds)
    began, saved = time.monotonic(), time.monotonic()
    # A run that was killed right after its last round has nothing left to do.
    reason = stop_reason(config, folder.last_record(), 0.0)
    while not reason:
        if course.round >= config.rounds:
            reason = f"all {config.rounds} rounds done"
            break
        clock = time.monotonic()
        try:
            record, watch = one_round(job, engine, course, prober)
        except RunFailed:
            folder.checkpoint(course, engine.states)
            raise
        trained = time.monotonic()
        if evaluated(course.round, config):
            record |= measure(job, engine, evaluator, course)
        reported = job.method.reported(course.server, course.weights)
        reason = stop_reason(config, record, time.monotonic() - began)
        if config.evaluation.personal and (reason or course.round >= config.rounds):
            record |= personal_accuracy(job, engine, reported, config.evaluation.personal)
        measured = time.monotonic()
        probed = prober.measure(engine, watch, reported) if watch else []
        done = time.monotonic()
        timing = {"train": trained - clock, "evaluate": measured - trained, "probe": done - measured}
        course.seconds += done - clock
        folder.record(record, {"round": course.round, **timing}, probed)
        if time.monotonic() - saved >= config.checkpoint_seconds:
            folder.checkpoint(course, engine.states)
            saved = time.monotonic()
        on_round(record)
    folder.checkpoint(course, engine.states)
    return reason


def one_round(job: Job, engine: Engine, course: Course, prober: Prober) -> tuple[Record, Watch | None]:
    """Choose clients, train them, merge what they learnt; the course then stands after the round."""
    round = course.round + 1
    setting, method = job.setting_in(round), job.method
    clients = choose(job, round)
    received = Received(round, course.weights, method.broadcast(course.server, setting))
    watch = prober.watch(round, clients, course.weights)
    sums, norms, used = Sums(method, course.weights, setting), [], []
    dropped: list[Record] = []
    failed: list[Record] = []
    sent = 0
    for update in engine.train(clients, received) if clients else ():
        sent += update.skipped is None
        if (problem := sums.problem(update)) is not None:
            dropped.append({"client": update.client, "reason": problem})
            failed += dropped[-1:] if update.skipped is None else []
            engine.states.discard(update.client, round)
        else:
            norms.append(sums.add(update))
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
        merged = method.merge(course.server, sums, setting)
    else:
        # None of them had anything to teach.
        merged = Merged(course.weights, course.server)
    if not bool(torch.isfinite(merged.weights.parameters).all()):
        raise Diverged(f"the merged model of round {round} is not finite; a smaller learning rate may help")
    for update in used:
        engine.states.accept(update.client, round)
    course.weights, course.server, course.round = merged.weights, merged.server, round
    record = {
        "schema": SCHEMA,
        "round": round,
        "lr": setting.lr,
        "clients": [update.client for update in used],
        "sizes": [update.size for update in used],
        "steps": [update.steps for update in used],
        "loss_before": [update.loss_before for update in used],
        "loss_after": [update.loss_after for update in used],
        "update_norms": norms,
        "forwards": sum(update.forwards for update in used),
        "backwards": sum(update.backwards for update in used),
        "dropped": dropped,
        **traffic(job, received, len(clients), sent),
        **({"server": merged.record} if merged.record else {}),
        **({"warnings": list(merged.warnings)} if merged.warnings else {}),
    }
    return record, watch


def choose(job: Job, round: int) -> list[int]:
    """The clients of a round, in the order in which they train and count: large ones first."""
    if not job.method.trains_clients:
        return []
    setting = job.setting
    chosen = generator(setting.seed, "clients", round).choice(
        setting.clients, setting.participants, replace=False, shuffle=False
    )
    sizes = job.federation.sizes[chosen]
    return [int(client) for client in chosen[np.lexsort((chosen, -sizes))]]


def stripped(update: Update) -> Update:
    """An update without its vectors, which a round with a thousand clients could not hold."""
    empty = torch.empty(0)
    update.weights, update.uploads = Weights(empty, empty, empty), {}
    return update


def traffic(job: Job, received: Received, clients: int, sent: int) -> Record:
    """Bytes that a round moves: to all of its clients, and back from those that sent an update."""
    weights = received.weights
    model = sum(v.numel() * v.itemsize for v in (weights.parameters, weights.floats, weights.integers))
    extra = sum(v.numel() * v.itemsize for v in received.shared.values())
    size = weights.parameters.itemsize
    up = sum(u.size * size if u.bytes is None else u.bytes for u in job.method.uploads(job.setting).values())
    return {"bytes_up": sent * (model + up), "bytes_down": clients * (model + extra)}


def evaluated(round: int, config: Config) -> bool:
    """Whether the model after a round is evaluated."""
    every, last = config.evaluation.every, config.evaluation.last
    if round > config.rounds - last:
        return True
    return every > 0 and (round % every == 0 or (round + 1) % every == 0)


def measure(job: Job, engine: Engine, evaluator: Evaluator, course: Course) -> Record:
    """Evaluate the merged model and say what it forgot since the round before."""
    reported = job.method.reported(course.server, course.weights)
    record: Record = dict(evaluator(engine, reported))
    where = "test" if "test" in record else "validation"
    if where not in record:
        return record
    per_class = record[where]["per_class"]
    before = course.per_class if course.per_class_round == course.round - 1 else None
    record["forgetting"] = {
        "on": where,
        "round": None if before is None else round_forgetting(before, per_class),
        "fedntd": fedntd_score([course.per_class_best, per_class]) if course.per_class_best else None,
    }
    course.per_class, course.per_class_round = per_class, course.round
    best = np.fmax(course.per_class_best or per_class, per_class)
    course.per_class_best = [float(value) for value in best]
    # The test set has no say in which model is best.
    accuracy = record["validation"]["accuracy"] if "validation" in record else -1.0
    if accuracy > course.best_accuracy:
        course.best, course.best_accuracy = reported, accuracy
    return record


def stop_reason(config: Config, record: Record, seconds: float) -> str:
    """Why a run ends after this round, or nothing."""
    for place, target in (("validation", config.stop.target), ("test", config.stop.test_target)):
        if target is not None and place in record and record[place]["accuracy"] >= target:
            return f"{place} accuracy reached {target:g}"
    if config.stop.hours is not None and seconds >= config.stop.hours * 3600:
        return f"{config.stop.hours:g} hours passed"
    return ""
