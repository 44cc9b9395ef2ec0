"""Callbacks of the round loop: their contract, and the standard hooks of a run."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from eunoe.analysis.divergence import Health
from eunoe.config.schema import Config
from eunoe.core.flat_model import Weights
from eunoe.core.tasks import Classification
from eunoe.engines.base import Engine, OwnModels, PrivateModels
from eunoe.engines.simulation import Simulation
from eunoe.metrics.base import Evaluator, Metric
from eunoe.metrics.evaluation import RoundMetrics
from eunoe.metrics.personal import Personal
from eunoe.server.updates import Update
from eunoe.store.checkpoints import RunState
from eunoe.store.folder import RunFolder
from eunoe.store.run_records import main_value, task_of

logger = logging.getLogger(__name__)
Record = dict[str, Any]


@dataclass
class Round:
    """The result of a round, which hooks read and extend."""

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
    clock: Callable[[], float] = time.monotonic

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time spent in the block to a step."""
        started = self.clock()
        yield
        self.seconds[step] += self.clock() - started


class Hook:
    """A callback of the round loop; every method is optional."""

    def before_run(self) -> str:
        """Return why the run has nothing left to do; empty if it has."""
        return ""

    def before_training(self, round: int, clients: Sequence[int], start: Weights) -> None:
        """Called when the clients of a round are selected, with the weights they start from."""

    def after_client(self, update: Update) -> None:
        """Called after an update was added to the aggregate; its vectors are dropped after this."""

    def before_aggregation(self, round: int) -> None:
        """Called when the updates of a round are summed and before the sums are read."""

    def after_round(self, done: Round) -> None:
        """Called after a round, with the run state updated."""

    def after_run(self) -> None:
        """Called when the run ends, normally or because a round failed."""


class Evaluate(Hook):
    """Evaluates the model after the rounds that are due, and keeps the best one on validation data.

    With `sent` it evaluates the model that clients receive, which averaging makes another one.
    """

    def __init__(
        self,
        config: Config,
        engine: Engine | PrivateModels,
        run_state: RunState,
        metrics: RoundMetrics,
        own: OwnModels | None = None,
        sent: bool = False,
    ) -> None:
        self.config, self.engine, self.run_state, self.metrics = config, engine, run_state, metrics
        # Where clients have their own models, each keeps its own best one.
        self.own, self.sent = own, sent
        # The metrics of both models are in the same checkpoint.
        self.remembered = {f"sent {name}" if sent else name: m for name, m in metrics.metrics.items()}
        restore(self.remembered, run_state)

    def before_run(self) -> str:
        if self.metrics.begin(self.engine, self.run_state.weights):
            remember(self.remembered, self.run_state)
        return ""

    def after_round(self, done: Round) -> None:
        if not evaluated(done.number, self.config):
            return
        weights = self.run_state.weights if self.sent else done.model
        with done.timed("evaluate"):
            elsewhere = self.engine.evaluate_elsewhere(weights)
            final = done.number > self.config.rounds - self.config.evaluation.last
            measured = self.metrics(self.own or self.engine, done.number, weights, elsewhere, final)
        remember(self.remembered, self.run_state)
        if self.sent:
            done.record["sent"] = measured
            return
        done.record |= measured
        # The best model is never selected on the test set.
        score = validation_score(measured)
        if not retains(measured, self.config):
            score = math.nan
        better = score > self.run_state.best_accuracy
        if self.own is None and (better or (self.run_state.best is None and not math.isnan(score))):
            self.run_state.best, self.run_state.best_accuracy = done.model, score


class Stop(Hook):
    """Ends a run that has reached its target or its time limit, or that no longer improves."""

    def __init__(self, config: Config, folder: RunFolder) -> None:
        self.config, self.folder, self.began = config, folder, time.monotonic()
        self.progress = Progress(folder.records() if config.stop.patience else ())

    def before_run(self) -> str:
        # A run killed right after its last round has nothing left to do.
        return stop_reason(self.config, self.folder.last_record(), self.progress)

    def after_round(self, done: Round) -> None:
        self.progress.see(done.record)
        seconds = time.monotonic() - self.began
        done.reason = stop_reason(self.config, done.record, self.progress, seconds)


class EvaluateLast(Hook):
    """Measures personalized accuracy once, in the last round."""

    def __init__(self, simulation: Simulation, config: Config, evaluator: Evaluator) -> None:
        self.evaluator, self.rounds, samples = evaluator, config.rounds, config.evaluation.personal
        metrics: dict[str, Metric] = {"personal": Personal(samples=samples)} if samples else {}
        federation, seed = simulation.federation, simulation.context.seed
        self.metrics = RoundMetrics(metrics, federation, seed, validation=False, test=False)

    def after_round(self, done: Round) -> None:
        if self.metrics.metrics and (done.reason or done.number >= self.rounds):
            with done.timed("evaluate"):
                done.record |= self.metrics(self.evaluator, done.number, done.model)


class Saving(Hook):
    """Writes the records of each round, saves the run state at intervals and at the end, calls `on_round`."""

    def __init__(
        self,
        folder: RunFolder,
        engine: Engine,
        run_state: RunState,
        seconds: float,
        on_round: Callable[[Record], None],
    ) -> None:
        self.folder, self.engine, self.run_state, self.seconds = folder, engine, run_state, seconds
        self.on_round, self.saved, self.health = on_round, time.monotonic(), Health(folder.records())

    def after_round(self, done: Round) -> None:
        self.run_state.seconds += sum(done.seconds.values())
        moved = self.engine.transfers.take().record()
        timing = {"round": done.number, **done.seconds, **({"moved": moved} if moved else {})}
        self.folder.record(done.record, timing, done.probes)
        self.run_state.recorded = done.number
        self.health.see(done.record)
        if time.monotonic() - self.saved >= self.seconds:
            self.after_run()
        self.on_round(done.record)

    def after_run(self) -> None:
        self.folder.checkpoint(self.run_state, self.engine.states, self.health.good)
        self.saved = time.monotonic()


def evaluated(round: int, config: Config) -> bool:
    """Return whether the model after a round is evaluated."""
    every, last = config.evaluation.every, config.evaluation.last
    if round > config.rounds - last:
        return True
    return every > 0 and (round % every == 0 or (round + 1) % every == 0)


def validation_score(record: Record) -> float:
    """Return the score of a record that models are selected by; NaN if it has none."""
    if "score" in record:
        return float(record["score"].get("validation", math.nan))
    return main_value(record.get("validation", {}))


def retains(section: Mapping[str, Any], config: Config) -> bool:
    """Return whether an evaluated model retains as much as `evaluation.retain_at_least` demands."""
    least, share = config.evaluation.retain_at_least, (section.get("retention") or {}).get("share")
    return least is None or (share is not None and share >= least)


class Progress:
    """Counts the evaluations since the best validation score."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.best, self.since = -math.inf, 0
        for record in records:
            self.see(record)

    def see(self, record: Record) -> None:
        if "validation" not in record and "score" not in record:
            return
        score = validation_score(record)
        self.since = 0 if score > self.best else self.since + 1
        self.best = max(self.best, score)  # NaN is never larger.


def stop_reason(config: Config, record: Record, progress: Progress, seconds: float = 0.0) -> str:
    """Return why a run ends after this round; empty if it continues."""
    for place, target in (("validation", config.stop.target), ("test", config.stop.test_target)):
        if target is not None and place in record and main_value(record[place]) >= target:
            return f"{place} {(task_of(record[place]) or Classification).title} reached {target:g}"
    if config.stop.patience is not None and progress.since >= config.stop.patience:
        return f"no better validation score in {progress.since} evaluations"
    share = (record.get("retention") or {}).get("share")
    if config.stop.retention is not None and share is not None and share < config.stop.retention:
        return f"retention {share:.3f} fell below {config.stop.retention:g}"
    if config.stop.hours is not None and seconds >= config.stop.hours * 3600:
        return f"{config.stop.hours:g} hours passed"
    return ""


def restore(metrics: Mapping[str, Metric], run_state: RunState) -> None:
    """Restore the state of metrics; one that is new to the run starts fresh."""
    for name, metric in metrics.items():
        if name in run_state.metrics:
            metric.restore(run_state.metrics[name])


def remember(metrics: Mapping[str, Metric], run_state: RunState) -> None:
    """Copy the state of metrics into the run state, which checkpoints save."""
    run_state.metrics |= {name: state for name, metric in metrics.items() if (state := metric.state())}
