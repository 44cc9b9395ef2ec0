"""The standard hooks of a run: evaluate, stop, probe, record, checkpoint, notify."""

import math
import time
from collections.abc import Callable, Mapping, Sequence

from eunoe.analysis.divergence import Health
from eunoe.config.schema import Config
from eunoe.core.flat_model import Weights
from eunoe.core.tasks import Classification
from eunoe.engines.base import Engine
from eunoe.engines.client import Update
from eunoe.engines.simulation import Simulation
from eunoe.metrics.base import Evaluator, Metric
from eunoe.metrics.evaluation import OwnModels, RoundMetrics
from eunoe.metrics.named import round_metrics
from eunoe.metrics.personal import Personal
from eunoe.metrics.probes import ProbedRound, Prober
from eunoe.simulation.loop import Hook, Record, Round
from eunoe.simulation.privacy import Spending
from eunoe.simulation.secure_aggregation import shown_probes
from eunoe.simulation.streams import phase_metrics
from eunoe.store.folder import RunFolder
from eunoe.store.run_records import main_value, task_of
from eunoe.store.state import RunState


def standard_hooks(
    simulation: Simulation,
    config: Config,
    engine: Engine,
    folder: RunFolder,
    run_state: RunState,
    on_round: Callable[[Record], None],
) -> list[Hook]:
    """The hooks of a run in a folder, in calling order."""
    federation, seed, chosen = simulation.federation, simulation.context.seed, config.evaluation
    own = None if simulation.method.aggregates else own_evaluator(simulation, engine)
    named = round_metrics([*config.metrics, *phase_metrics(federation, config.rounds)], federation.task)
    if own is not None:
        # It is a global model that forgets.
        del named["forgetting"]
    metrics = RoundMetrics(
        named,
        federation,
        seed,
        validation=chosen.validation,
        test=chosen.test,
        own_models=own is not None,
    )
    # A mean forgets little by construction, so the model that clients receive is measured beside it.
    sent = [] if config.averaging is None else [EvaluateSent(simulation, config, engine, run_state)]
    private = config.privacy is not None
    # A probe compares clients' models with the global one.
    prober = Prober(federation, seed, shown_probes(config) if own is None else (), config.rounds)
    return [
        Evaluate(config, engine, run_state, metrics, own),
        *sent,
        Stop(config, folder),
        *([Spending(simulation, folder, run_state)] if private else []),
        EvaluateLast(simulation, config, own or engine),
        Probing(engine, run_state, prober),
        Recording(folder, run_state, engine),
        Checkpoints(folder, engine, run_state, config.checkpoint_seconds),
        Reporting(on_round),
    ]


class Evaluate(Hook):
    """Evaluates the model after the rounds that are due, and keeps the best one on validation data."""

    def __init__(
        self,
        config: Config,
        engine: Engine,
        run_state: RunState,
        metrics: RoundMetrics,
        own: OwnModels | None = None,
    ) -> None:
        self.config, self.engine, self.run_state, self.metrics = config, engine, run_state, metrics
        # Where clients have their own models, each keeps its own best one.
        self.own = own
        restore(metrics.metrics, run_state)

    def after_round(self, done: Round) -> None:
        if not evaluated(done.number, self.config):
            return
        with done.timed("evaluate"):
            elsewhere = self.engine.measured_elsewhere(done.model)
            measured = self.metrics(self.own or self.engine, done.number, done.model, elsewhere)
        done.record |= measured
        remember(self.metrics.metrics, self.run_state)
        # The best model is never selected on the test set.
        score = main_value(measured.get("validation", {}))
        better = score > self.run_state.best_accuracy
        if self.own is None and (better or (self.run_state.best is None and not math.isnan(score))):
            self.run_state.best, self.run_state.best_accuracy = done.model, score


class EvaluateSent(Hook):
    """Evaluates the model that clients receive, in the rounds in which the evaluated one is another."""

    def __init__(self, simulation: Simulation, config: Config, engine: Engine, run_state: RunState) -> None:
        self.config, self.engine, self.run_state, chosen = config, engine, run_state, config.evaluation
        self.metrics = RoundMetrics(
            round_metrics(task=simulation.federation.task),
            simulation.federation,
            simulation.context.seed,
            validation=chosen.validation,
            test=chosen.test,
        )
        # Under names of their own, since the evaluated model's metrics are in the same checkpoint.
        self.remembered = {f"sent {name}": metric for name, metric in self.metrics.metrics.items()}
        restore(self.remembered, run_state)

    def after_round(self, done: Round) -> None:
        if not evaluated(done.number, self.config):
            return
        with done.timed("evaluate"):
            weights = self.run_state.weights
            elsewhere = self.engine.measured_elsewhere(weights)
            done.record["sent"] = self.metrics(self.engine, done.number, weights, elsewhere)
        remember(self.remembered, self.run_state)


class Stop(Hook):
    """Ends a run that has reached its target or its time limit."""

    def __init__(self, config: Config, folder: RunFolder) -> None:
        self.config, self.folder, self.began = config, folder, time.monotonic()

    def before_run(self) -> str:
        # A run killed right after its last round has nothing left to do.
        return stop_reason(self.config, self.folder.last_record(), 0.0)

    def after_round(self, done: Round) -> None:
        done.reason = stop_reason(self.config, done.record, time.monotonic() - self.began)


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
                # What a round does to a model is not seen in the mean of several rounds.
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
        moved = self.engine.transfers.taken().record()
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
    """Evaluates each client's samples by the best of its own models."""

    def own(client: int) -> Weights | None:
        state = engine.states.load(client)
        return simulation.method.own_model(state, "best").to("cpu") if state else None

    return OwnModels(engine, own)


def evaluated(round: int, config: Config) -> bool:
    """Whether the model after a round is evaluated."""
    every, last = config.evaluation.every, config.evaluation.last
    if round > config.rounds - last:
        return True
    return every > 0 and (round % every == 0 or (round + 1) % every == 0)


def stop_reason(config: Config, record: Record, seconds: float) -> str:
    """Why a run ends after this round; empty if it continues."""
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
