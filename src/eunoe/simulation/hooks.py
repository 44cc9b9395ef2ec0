"""Callbacks of the round loop: their contract, and the standard hooks of a run."""

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from eunoe.analysis.divergence import Health
from eunoe.config.schema import Config
from eunoe.core.flat_model import Weights
from eunoe.core.tasks import Classification
from eunoe.engines.base import Engine
from eunoe.engines.simulation import Simulation
from eunoe.errors import Damaged
from eunoe.metrics.base import Evaluator, Metric
from eunoe.metrics.evaluation import OwnModels, RoundMetrics
from eunoe.metrics.named import round_metrics
from eunoe.metrics.personal import Personal
from eunoe.metrics.probes import ProbedRound, Prober
from eunoe.server.updates import Update
from eunoe.simulation.streams import phase_metrics
from eunoe.store.folder import RunFolder
from eunoe.store.run_records import main_value, task_of
from eunoe.store.state import RunState
from eunoe.system.files import read_json, write_text

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
        """Return why the run has nothing left to do; empty if it has."""
        return ""

    def before_training(self, round: int, clients: Sequence[int], start: Weights) -> None:
        """Called when the clients of a round are selected, with the weights they start from."""

    def reads_updates(self) -> bool:
        """Return whether `after_client` reads the vectors of this round's updates."""
        return False

    def after_client(self, update: Update) -> None:
        """Called after an update was added to the aggregate; its vectors are dropped after this."""

    def before_aggregation(self, round: int) -> None:
        """Called when the updates of a round are summed and before the sums are read."""

    def after_round(self, done: Round) -> None:
        """Called after a round, with the run state updated."""

    def after_run(self) -> None:
        """Called when the run ends, normally or because a round failed."""


def standard_hooks(
    simulation: Simulation,
    config: Config,
    engine: Engine,
    folder: RunFolder,
    run_state: RunState,
    on_round: Callable[[Record], None],
) -> list[Hook]:
    """Return the hooks of a run in a folder, in calling order."""
    federation, seed, chosen = simulation.federation, simulation.context.seed, config.evaluation
    own = None if simulation.method.aggregates else own_evaluator(simulation, engine)
    named = round_metrics([*config.metrics, *phase_metrics(federation, config.rounds)], federation.task)
    if own is not None:
        # Forgetting is that of a global model.
        del named["forgetting"]
    places = {"validation": chosen.validation, "test": chosen.test}
    metrics = RoundMetrics(named, federation, seed, own_models=own is not None, **places)
    # A mean forgets little by construction, so the model that clients receive is measured beside it.
    sent = []
    if config.averaging is not None:
        plain = RoundMetrics(round_metrics(task=federation.task), federation, seed, **places)
        sent = [Evaluate(config, engine, run_state, plain, sent=True)]
    budget = [] if config.privacy is None else [PrivacyBudget(simulation, folder, run_state)]
    # A probe compares clients' models, which must be visible, with the global one.
    hidden = own is not None or config.secure_aggregation is not None or config.privacy is not None
    prober = Prober(federation, seed, () if hidden else config.probes, config.rounds)
    return [
        Evaluate(config, engine, run_state, metrics, own),
        *sent,
        Stop(config, folder),
        *budget,
        EvaluateLast(simulation, config, own or engine),
        Probing(engine, run_state, prober),
        Recording(folder, run_state, engine),
        Checkpoints(folder, engine, run_state, config.checkpoint_seconds),
        Reporting(on_round),
    ]


class Evaluate(Hook):
    """Evaluates the model after the rounds that are due, and keeps the best one on validation data.

    With `sent` it evaluates the model that clients receive, which averaging makes another one.
    """

    def __init__(
        self,
        config: Config,
        engine: Engine,
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

    def after_round(self, done: Round) -> None:
        if not evaluated(done.number, self.config):
            return
        weights = self.run_state.weights if self.sent else done.model
        with done.timed("evaluate"):
            elsewhere = self.engine.evaluate_elsewhere(weights)
            measured = self.metrics(self.own or self.engine, done.number, weights, elsewhere)
        remember(self.remembered, self.run_state)
        if self.sent:
            done.record["sent"] = measured
            return
        done.record |= measured
        # The best model is never selected on the test set.
        score = main_value(measured.get("validation", {}))
        better = score > self.run_state.best_accuracy
        if self.own is None and (better or (self.run_state.best is None and not math.isnan(score))):
            self.run_state.best, self.run_state.best_accuracy = done.model, score


class Stop(Hook):
    """Ends a run that has reached its target or its time limit."""

    def __init__(self, config: Config, folder: RunFolder) -> None:
        self.config, self.folder, self.began = config, folder, time.monotonic()

    def before_run(self) -> str:
        # A run killed right after its last round has nothing left to do.
        return stop_reason(self.config, self.folder.last_record(), 0.0)

    def after_round(self, done: Round) -> None:
        done.reason = stop_reason(self.config, done.record, time.monotonic() - self.began)


class PrivacyBudget(Hook):
    """Records the epsilon that each aggregation spends; ends the run before one that would exceed the budget.

    In a simulation noise comes from the seed, so a round that is repeated after a crash is the same one and
    counts once. A federation's server draws fresh noise: every aggregation is written to privacy.json before
    its noise is drawn, and one that is repeated counts twice.
    """

    def __init__(self, simulation: Simulation, folder: RunFolder, run_state: RunState) -> None:
        context = simulation.context
        assert context.privacy is not None
        self.options, self.secret = context.privacy.options, context.privacy.secret
        self.accountant = context.privacy.accountant(context.data.clients, context.participants)
        self.run_state, self.folder, self.ledger = run_state, folder, folder.path / "privacy.json"
        written = self._read_ledger() if self.secret else 0
        # Each round has drawn noise at least once, whatever happened to the ledger.
        self.aggregations = max(written, run_state.round)
        if self.secret and written < run_state.round:
            logger.warning(
                "privacy: %s has %d aggregations and %d rounds are done: repeated ones are not counted",
                self.ledger,
                written,
                run_state.round,
            )
        elif self.aggregations > run_state.round:
            logger.warning(
                "privacy: %d aggregations have drawn noise in %d rounds; repeated ones count twice",
                self.aggregations,
                run_state.round,
            )

    def _read_ledger(self) -> int:
        """Return the number of aggregations in the ledger; 0 without a ledger."""
        if not self.ledger.exists():
            return 0
        aggregations = read_json(self.ledger).get("merges")
        if type(aggregations) is not int or aggregations < 0:
            raise Damaged(f"{self.ledger} does not have the number of aggregations; restore it")
        return aggregations

    def before_run(self) -> str:
        self._record()
        return self._exhausted()

    def before_aggregation(self, round: int) -> None:
        if self.secret:
            self.aggregations += 1
            write_text(self.ledger, json.dumps({"merges": self.aggregations}) + "\n")

    def after_round(self, done: Round) -> None:
        done.record["privacy"] = self._record()
        done.reason = done.reason or self._exhausted()

    def _record(self) -> dict[str, float | int]:
        """Return what is spent, for the record and the status."""
        if not self.secret:
            self.aggregations = self.run_state.round
        epsilon = self.accountant.epsilon(self.aggregations) if self.accountant else float("inf")
        spent = {"epsilon": epsilon, "delta": self.options.delta, "merges": self.aggregations}
        self.folder.facts["privacy"] = spent
        return spent

    def _exhausted(self) -> str:
        """Return why no further aggregation is allowed; empty if one is."""
        budget, accountant = self.options.epsilon, self.accountant
        if accountant is None or budget is None or accountant.epsilon(self.aggregations + 1) <= budget:
            return ""
        spent = accountant.epsilon(self.aggregations)
        return f"the privacy budget of epsilon = {budget:g} allows no further round; {spent:.3g} is spent"


class EvaluateLast(Hook):
    """Measures personalized accuracy once, in the last round."""

    def __init__(self, simulation: Simulation, config: Config, evaluator: Evaluator) -> None:
        self.evaluator, self.rounds, samples = evaluator, config.rounds, config.evaluation.personal
        metrics: dict[str, Metric] = {"personal": Personal(samples=samples)} if samples else {}
        self.metrics = RoundMetrics(
            metrics, simulation.federation, simulation.context.seed, validation=False, test=False
        )

    def after_round(self, done: Round) -> None:
        if self.metrics.metrics and (done.reason or done.number >= self.rounds):
            with done.timed("evaluate"):
                done.record |= self.metrics(self.evaluator, done.number, done.model)


class Probing(Hook):
    """Runs the probes of the rounds that are due."""

    def __init__(self, engine: Engine, run_state: RunState, prober: Prober) -> None:
        self.engine, self.run_state, self.prober = engine, run_state, prober
        self.seen: ProbedRound | None = None
        restore(prober.metrics, run_state)

    def before_training(self, round: int, clients: Sequence[int], start: Weights) -> None:
        self.seen = self.prober.watch(round, clients, start)

    def reads_updates(self) -> bool:
        return self.seen is not None

    def after_client(self, update: Update) -> None:
        if self.seen:
            self.seen.see(update.client, update.weights)

    def after_round(self, done: Round) -> None:
        if self.seen:
            with done.timed("probe"):
                # Not the averaged model: probes show what this round did.
                done.probes += self.prober.measure(self.engine, self.seen, done.global_model)
            remember(self.prober.metrics, self.run_state)
        # Frees the models before the next round.
        self.seen = None


class Recording(Hook):
    """Writes the records of a round to the run folder."""

    def __init__(self, folder: RunFolder, run_state: RunState, engine: Engine) -> None:
        self.folder, self.run_state, self.engine = folder, run_state, engine

    def after_round(self, done: Round) -> None:
        self.run_state.seconds += sum(done.seconds.values())
        moved = self.engine.transfers.take().record()
        timing = {"round": done.number, **done.seconds, **({"moved": moved} if moved else {})}
        self.folder.record(done.record, timing, done.probes)
        self.run_state.recorded = done.number


class Checkpoints(Hook):
    """Saves the run state at intervals and at the end."""

    def __init__(self, folder: RunFolder, engine: Engine, run_state: RunState, seconds: float) -> None:
        self.folder, self.engine, self.run_state, self.seconds = folder, engine, run_state, seconds
        self.saved, self.health = time.monotonic(), Health(folder.records())

    def after_round(self, done: Round) -> None:
        self.health.see(done.record)
        if time.monotonic() - self.saved >= self.seconds:
            self.after_run()

    def after_run(self) -> None:
        self.folder.checkpoint(self.run_state, self.engine.states, self.health.good)
        self.saved = time.monotonic()


class Reporting(Hook):
    """Passes the record of each round to a callback."""

    def __init__(self, on_round: Callable[[Record], None]) -> None:
        self.on_round = on_round

    def after_round(self, done: Round) -> None:
        self.on_round(done.record)


def own_evaluator(simulation: Simulation, engine: Engine) -> OwnModels:
    """Return what evaluates each client's samples by the best of its own models."""

    def own(client: int) -> Weights | None:
        state = engine.states.load(client)
        return simulation.method.own_model(state, "best").to("cpu") if state else None

    return OwnModels(engine, own)


def evaluated(round: int, config: Config) -> bool:
    """Return whether the model after a round is evaluated."""
    every, last = config.evaluation.every, config.evaluation.last
    if round > config.rounds - last:
        return True
    return every > 0 and (round % every == 0 or (round + 1) % every == 0)


def stop_reason(config: Config, record: Record, seconds: float) -> str:
    """Return why a run ends after this round; empty if it continues."""
    for place, target in (("validation", config.stop.target), ("test", config.stop.test_target)):
        if target is not None and place in record and main_value(record[place]) >= target:
            return f"{place} {(task_of(record[place]) or Classification).title} reached {target:g}"
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
