"""Starting and resuming runs."""

import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from eunoe.analysis.divergence import divergence, find_outlier, never_learned_warning
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import merge, read_config
from eunoe.data.federation import Federation
from eunoe.engines.base import Engine, make_engine
from eunoe.engines.client_states import ClientStates
from eunoe.engines.simulation import Simulation
from eunoe.errors import Diverged, EunoeError, InputError, Outcome, RunFailed, outcome_of
from eunoe.report.progress import progress_bar
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.compatibility import check_targets
from eunoe.simulation.hooks import Record, standard_hooks
from eunoe.simulation.loop import run_rounds
from eunoe.simulation.resuming import check_config, check_data, check_place
from eunoe.simulation.run import Run
from eunoe.simulation.stored_config import complete_config, resolved, with_loss
from eunoe.simulation.user_objects import split_user_objects
from eunoe.store.environment import describe_environment
from eunoe.store.folder import RunFolder, check_new
from eunoe.store.reader import read_run, read_run_config, read_status
from eunoe.store.state import start_state
from eunoe.system.memory import within_memory
from eunoe.system.signals import interruptible
from eunoe.trackers import Tracking, build_trackers

logger = logging.getLogger(__name__)
OnRound = Callable[[Record], None]


def run(
    config: Config | Mapping[str, Any] | Path | str | None = None,
    *,
    federation: Federation | None = None,
    out: Path | str | None = None,
    on_round: OnRound | None = None,
    progress: bool | None = None,
    **values: Any,
) -> Run:
    """Train a federation and return the run.

    The configuration is a TOML file, a `Config`, nested values, or keyword arguments for single options
    (`training={"lr": 0.1}`) unless they have a `name`. `model`, `method`, `loss` and `server_optimizer` may
    be a name, a section such as `{"name": "fedprox", "mu": 0.1}`, or an object of your own. An existing run
    folder is not overwritten. Without `out` the folder is a temporary one, which stays until you remove it.
    `progress` shows a progress bar; by default only in terminals and notebooks.
    """
    objects, plain = split_user_objects(federation, values)
    if isinstance(config, Path | str):
        config = read_config(Path(config))
    base = config.model_dump() if isinstance(config, Config) else dict(config or {})
    checked = config if isinstance(config, Config) and not plain else make_config(merge(base, plain))
    if out is not None:
        check_new(Path(out))
    with within_memory("this configuration"):
        simulation, warnings = assemble(checked, objects)
    check_targets(checked, simulation.federation)
    for warning in warnings:
        logger.warning(warning)
    folder = Path(tempfile.mkdtemp(prefix="eunoe-") if out is None else out)
    with progress_bar(with_loss(checked, simulation).title, checked.rounds, on_round, progress) as follow:
        return execute(checked, objects, simulation, folder, follow, new=True)


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
    folder = Path(folder)
    check_place(folder)
    objects, plain = split_user_objects(federation, values)
    old = make_config(read_run_config(folder))
    new = make_config(merge(old.model_dump(), changes or {}, plain))
    check_config(folder, new)
    done = int(read_status(folder).get("round", 0)) if from_round is None else from_round
    if new.rounds < done:
        raise InputError(f"{folder} has done {done} rounds, which cannot become {new.rounds}")
    with within_memory("this configuration"):
        simulation, _ = assemble(new, objects)
    check_targets(new, simulation.federation)
    check_data(folder, simulation)
    with progress_bar(new.title, new.rounds, on_round, progress) as follow:
        return execute(new, objects, simulation, folder, follow, from_round=from_round)


def execute(
    config: Config,
    objects: UserObjects,
    simulation: Simulation,
    path: Path,
    on_round: OnRound,
    engine: Engine | None = None,
    new: bool = False,
    from_round: int | None = None,
) -> Run:
    """Start a run in a folder or, unless it must be new, resume it; on its engine or on the one passed."""
    config, threads = complete_config(config, simulation), torch.get_num_threads()
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
            if new:
                # Another run may have started there while the data were loaded.
                check_new(path)
            for warning in folder.restore(run_state, states, from_round):
                logger.warning(warning)
            folder.write_config(resolved(config, objects))
            folder.write_environment(describe_environment(simulation.federation))
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
    return Run(path, **vars(objects))


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
