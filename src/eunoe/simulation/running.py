"""Starting and resuming runs."""

import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import torch

from eunoe.analysis.divergence import divergence, find_outlier, never_learned_warning
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import merge
from eunoe.data.federation import Federation
from eunoe.engines.base import Engine, OwnModels, PrivateModels, make_engine
from eunoe.engines.client_states import ClientStates
from eunoe.engines.simulation import Simulation
from eunoe.errors import Diverged, EunoeError, InputError, Outcome, RunFailed, outcome_of
from eunoe.metrics.evaluation import RoundMetrics, make_score
from eunoe.metrics.named import round_metrics
from eunoe.metrics.retention import Retention
from eunoe.report.progress import progress_bar
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.compatibility import check_targets
from eunoe.simulation.hooks import Evaluate, EvaluateLast, Hook, Record, Saving, Stop
from eunoe.simulation.loop import run_rounds
from eunoe.simulation.privacy_budget import PrivacyBudget
from eunoe.simulation.probing import Probing
from eunoe.simulation.resuming import (
    check_config,
    check_data,
    complete_config,
    describe_environment,
    resolved,
    with_loss,
)
from eunoe.simulation.run import Run
from eunoe.simulation.streams import phase_metrics
from eunoe.simulation.user_objects import ConfigLike, merge_values, split_user_objects
from eunoe.store.checkpoints import RunState, start_state
from eunoe.store.folder import RunFolder, check_new
from eunoe.store.reader import read_run, read_run_config, read_status
from eunoe.system.files import read_json
from eunoe.system.machine import within_memory
from eunoe.system.signals import interruptible
from eunoe.trackers import Tracking, build_trackers

logger = logging.getLogger(__name__)
OnRound = Callable[[Record], None]


@overload
def run(config: ConfigLike = None, *, seeds: None = None, **values: Any) -> Run: ...
@overload
def run(config: ConfigLike = None, *, seeds: Iterable[int], **values: Any) -> list[Run]: ...
def run(
    config: ConfigLike = None,
    *,
    federation: Federation | None = None,
    out: Path | str | None = None,
    on_round: OnRound | None = None,
    progress: bool | None = None,
    seeds: Iterable[int] | None = None,
    exact: bool = False,
    **values: Any,
) -> Run | list[Run]:
    """Train a federation and return the run, or with `seeds` the runs.

    The configuration is a TOML file, a `Config`, nested values, or keyword arguments for single options
    (`training={"lr": 0.1}`) unless they have a `name`. `model`, `method`, `loss` and `server_optimizer` may
    be a name, a section such as `{"name": "fedprox", "mu": 0.1}`, or an object of your own. With
    `preset="recommended"` method, averaging and learning rate follow from the clients. An existing run
    folder is not overwritten. Without `out` the folder is a temporary one, which stays until you remove it.
    `progress` shows a progress bar; by default only in terminals and notebooks.

    With `seeds` there is a run for each of them, in the folders `seed-0`, `seed-1` ... of `out`: finished
    ones are read, others start or are resumed. Small models train in lockstep, several times as fast, which
    changes the last bits of results; `exact` gives those of the serial engine.
    """
    if seeds is not None:
        from eunoe.simulation.many import run_seeds

        return run_seeds(config, seeds, federation, out, on_round, exact, values)
    prepared = prepare_run(config, federation, out, values)
    config, simulation = prepared.config, prepared.simulation
    with progress_bar(with_loss(config, simulation).title, config.rounds, on_round, progress) as follow:
        execute(prepared, follow)
    return prepared.result()


def resume(
    folder: Path | str,
    changes: Mapping[str, Any] | None = None,
    *,
    federation: Federation | None = None,
    from_round: int | None = None,
    on_round: OnRound | None = None,
    progress: bool | None = None,
    **values: Any,
) -> Run:
    """Resume a run from its newest checkpoint; only options that change no result may be changed.

    With `from_round` it goes back to the checkpoint of that round, and what came after it is removed.

    Changes are nested values or keyword arguments, of single options (`stop={"target": None}`);
    user-provided objects are passed as to `run`.
    """
    prepared = prepare_resumed(folder, changes, federation, from_round, values)
    with progress_bar(prepared.config.title, prepared.config.rounds, on_round, progress) as follow:
        execute(prepared, follow)
    return prepared.result()


@dataclass(frozen=True)
class PreparedRun:
    """A run that is ready to start in a folder, or to be resumed there from its newest or another round."""

    config: Config
    objects: UserObjects
    simulation: Simulation
    folder: Path
    new: bool = False
    from_round: int | None = None

    def result(self) -> Run:
        """Read the run in its folder."""
        return Run(self.folder, **vars(self.objects))


def prepare_run(
    config: ConfigLike, federation: Federation | None, out: Path | str | None, values: Mapping[str, Any]
) -> PreparedRun:
    """Build a new run; the arguments are those of `run`."""
    objects, merged = merge_values(config, federation, values)
    checked = make_config(merged)
    if out is not None:
        check_new(Path(out))
    with within_memory("this configuration"):
        simulation, warnings = assemble(checked, objects)
    check_targets(checked, simulation.federation)
    for warning in warnings:
        logger.warning(warning)
    folder = Path(tempfile.mkdtemp(prefix="eunoe-") if out is None else out)
    return PreparedRun(checked, objects, simulation, folder, new=True)


def prepare_resumed(
    folder: Path | str,
    changes: Mapping[str, Any] | None,
    federation: Federation | None,
    from_round: int | None,
    values: Mapping[str, Any],
) -> PreparedRun:
    """Build a run in a folder again, checked against what it was; the arguments are those of `resume`."""
    folder = Path(folder)
    if (folder / "flower.json").exists():
        # The clients' states are on other machines.
        raise InputError(f"{folder} is a Flower run: resume it with `flwr run` or start.py")
    objects, plain = split_user_objects(federation, values)
    old = make_config(read_run_config(folder))
    new = make_config(merge(old.model_dump(), changes or {}, plain))
    check_config(folder, new)
    done = int(read_status(folder).get("round", 0)) if from_round is None else from_round
    if new.rounds < done:
        raise InputError(f"rounds={new.rounds} is too small: {folder} has already run {done} rounds")
    with within_memory("this configuration"):
        simulation, _ = assemble(new, objects)
    check_targets(new, simulation.federation)
    check_data(folder, simulation)
    return PreparedRun(new, objects, simulation, folder, from_round=from_round)


def execute(prepared: PreparedRun, on_round: OnRound, engine: Engine | None = None) -> None:
    """Start or resume a run, on its engine or on the one passed."""
    simulation, path, threads = prepared.simulation, prepared.folder, torch.get_num_threads()
    config = complete_config(prepared.config, simulation)
    tracking = Tracking(build_trackers(config.track), path, config.title)
    # One thread everywhere: another order of summation would change the bits.
    torch.set_num_threads(1)

    def follow(record: Record) -> None:
        for warning in record.get("warnings", ()):
            logger.warning("after round %d, %s", record["round"], warning)
        tracking.send(record)
        on_round(record)

    states = engine.states if engine else ClientStates(path / "states", device=simulation.model.device)
    try:
        run_state = start_state(simulation)
        # The engine comes first, so that nothing is written if it cannot start.
        with (
            engine or make_engine(config, simulation, states) as running,
            RunFolder(path) as folder,
            tracking,
        ):
            if prepared.new:
                # Another run may have started there while the data were loaded.
                check_new(path)
            for warning in folder.restore(run_state, states, prepared.from_round):
                logger.warning(warning)
            folder.write_config(resolved(config, prepared.objects))
            # Of a run that is resumed alone, the first rounds were done in lockstep.
            before = read_json(path / "environment.json")
            lockstep = {"lockstep": before["lockstep"]} if "lockstep" in before else {}
            environment = describe_environment(simulation.federation) | lockstep | running.environment
            folder.write_environment(environment)
            folder.write_partition(simulation.federation)
            folder.write_status("running", "", run_state.seconds)
            try:
                with interruptible(), within_memory("training", RunFailed):
                    hooks = standard_hooks(simulation, config, running, folder, run_state, follow)
                    reason = run_rounds(simulation, running, run_state, config.rounds, hooks)
            except KeyboardInterrupt:
                # The loop has saved the last whole round.
                folder.write_status("interrupted", "interrupted", run_state.seconds)
                raise
            except Diverged as error:
                reason = explain_divergence(str(error), folder.records(), folder.go_back())
                folder.write_status("diverged", reason, run_state.seconds)
                raise Diverged(reason) from error
            except Exception as error:
                reason = str(error) if isinstance(error, EunoeError) else f"{type(error).__name__}: {error}"
                with suppress(RunFailed):  # The disk may be full; the original error says so.
                    folder.write_status(outcome_of(type(error)), reason, run_state.seconds)
                raise
            ended = final_outcome(path, reason, folder.go_back())
            folder.write_status(*ended, run_state.seconds)
            tracking.outcome = ended[0]
    finally:
        torch.set_num_threads(threads)


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
    own = None if simulation.method.aggregates else OwnModels(engine)
    evaluator: Engine | PrivateModels = engine
    if (private := simulation.private) is not None:
        evaluator = PrivateModels(engine, private, lambda model: private.put_mean(model, run_state.private))
    named = round_metrics([*config.metrics, *phase_metrics(federation, config.rounds)], federation.task)
    if own is None:
        named["retention"] = Retention()
    else:
        # Forgetting is that of a global model.
        del named["forgetting"]
    places = {"validation": chosen.validation, "test": chosen.test, "judging": chosen.judging}
    scored = chosen.judging or chosen.metric is not None
    if scored:
        named["score"] = make_score(chosen.metric, federation.task)
    metrics = RoundMetrics(named, federation, seed, own_models=own is not None, **places)
    # A mean forgets little by construction, so the model that clients receive is measured beside it.
    sent = []
    if config.averaging is not None:
        standard = {**round_metrics(task=federation.task), "retention": Retention()}
        if scored:
            standard["score"] = make_score(chosen.metric, federation.task)
        plain = RoundMetrics(standard, federation, seed, **places)
        sent = [Evaluate(config, evaluator, run_state, plain, sent=True)]
    budget = [] if config.privacy is None else [PrivacyBudget(simulation, folder, run_state)]
    return [
        Evaluate(config, evaluator, run_state, metrics, own),
        *sent,
        Stop(config, folder),
        *budget,
        EvaluateLast(simulation, config, own or evaluator),
        Probing(simulation, config, engine, run_state),
        Saving(folder, engine, run_state, config.checkpoint_seconds, on_round),
    ]


def explain_divergence(why: str, records: Iterable[Mapping[str, Any]], go_back: str) -> str:
    """Return why a run has diverged, whose change stands out, and how to go back."""
    back = go_back and f"to go back to the last good checkpoint: {go_back}"
    return "; ".join(filter(None, (why, find_outlier(records), back)))


def final_outcome(folder: Path, reason: str, go_back: str = "") -> tuple[Outcome, str]:
    """Return how a run ended after its last round: finished, or diverged if its model is useless."""
    records = read_run(folder, begun=False)
    if why := divergence(records):
        why = explain_divergence(why, records.metrics, go_back)
        logger.warning("the run diverged: %s; a smaller training.lr may help", why)
        return "diverged", f"{reason}, but {why}"
    if why := never_learned_warning(records):
        logger.warning("%s", why)
    return "finished", reason
