"""Many runs: in lockstep where that is faster, the others several at a time in processes.

Each run has its own folder: finished runs are skipped and interrupted ones resumed.
"""

import logging
import multiprocessing
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from eunoe.config.schema import RESUMABLE, Config, make_config
from eunoe.data.federation import Federation
from eunoe.errors import Diverged, InputError, RunFailed
from eunoe.simulation.build import UserObjects, assemble, sharing_data
from eunoe.simulation.hooks import Progress, Record, stop_reason
from eunoe.simulation.lockstep import run_in_lockstep
from eunoe.simulation.resuming import check_config, resolved
from eunoe.simulation.run import Run
from eunoe.simulation.running import OnRound, PreparedRun, prepare_resumed, prepare_run
from eunoe.simulation.running import execute as execute_run
from eunoe.simulation.structure import lockstep_reason
from eunoe.simulation.user_objects import ConfigLike, merge_values
from eunoe.store.reader import read_run, read_run_config, read_status
from eunoe.system.log_lines import PipeHandler, titled_logs
from eunoe.system.machine import can_fork, cores, keep_freed_memory
from eunoe.system.signals import end_with_parent, interruptible


@dataclass(frozen=True)
class Planned:
    """A run of a sweep: a label that it shares with other seeds, its config values and its folder.

    `objects` are keyword arguments of `eunoe.run`: the user's own objects, such as a federation.
    """

    label: str
    values: dict[str, Any]
    folder: Path
    objects: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @cached_property
    def config(self) -> Config:
        """The validated values."""
        return make_config(self.values)

    @property
    def rounds(self) -> int:
        return self.config.rounds

    @property
    def title(self) -> str:
        """The label and the seed."""
        return f"{self.label} seed {self.config.seed}"


# Time that a run gets to end after it was asked to.
_GRACE_SECONDS = 60.0
# The most runs in lockstep in one process.
_AT_ONCE = 64
_VECTORIZED = ("vectorized", {"name": "vectorized"})

# Called when a run starts (record is None) and after each of its rounds.
OnSweepRound = Callable[[Planned, Record | None], None]


def execute(
    runs: Iterable[Planned],
    jobs: int = 1,
    on_round: OnSweepRound = lambda planned, record: None,
    exact: bool = False,
) -> list[Run]:
    """Execute the unfinished runs in `jobs` processes and return all runs.

    Runs for which no engine is named train in lockstep, on the vectorized engine, if at least two have one
    structure and gain from it. With `exact` none does: results are those of the serial engine, bit for bit.
    Log messages start with a run's title. If a run diverges the others continue; any other exception ends
    the sweep. A folder with a run of another configuration raises an InputError.
    """
    by_folder: dict[Path, Planned] = {}
    for planned in runs:
        if by_folder.setdefault(planned.folder, planned).values != planned.values:
            raise InputError(
                f"two runs with different configs have the same folder {planned.folder}: remove one"
            )
        # A mistyped name must fail before the first run starts.
        resolved(planned.config)
    # Data are loaded once, and inherited by the processes.
    with sharing_data():
        batches = _batches(list(by_folder.values()), jobs, exact)

        def follow(planned: Planned, record: Record | None) -> None:
            on_round(by_folder[planned.folder], record)

        if jobs == 1 or not can_fork():
            for batch in batches:
                _execute_batch(batch, follow)
        else:
            with interruptible():
                _run_in_parallel(batches, jobs, follow)
    return [Run(folder) for folder in by_folder]


def run_seeds(
    config: ConfigLike,
    seeds: Iterable[int],
    federation: Federation | None,
    out: Path | str | None,
    on_round: OnRound | None,
    exact: bool,
    values: Mapping[str, Any],
) -> list[Run]:
    """Execute runs that differ in their seed, on all cores; the arguments are those of `run`."""
    user, merged = merge_values(config, federation, values)
    objects = {name: value for name, value in vars(user).items() if value is not None}
    folder = Path(tempfile.mkdtemp(prefix="eunoe-") if out is None else out)
    runs = [Planned("run", {**merged, "seed": s}, folder / f"seed-{s}", objects=objects) for s in seeds]

    def follow(planned: Planned, record: Record | None) -> None:
        if record is not None and on_round is not None:
            on_round(record)

    execute(runs, min(cores(), len(runs)) or 1, follow, exact)
    return [Run(planned.folder, **objects) for planned in runs]


def _batches(runs: Sequence[Planned], jobs: int, exact: bool) -> list[list[Planned]]:
    """Return the unfinished runs in batches: those that train in lockstep together, the others alone."""
    alike: dict[str, list[Planned]] = {}
    for planned in runs:
        alike.setdefault(_structure(planned), []).append(planned)
    alone, lockstep = list[list[Planned]](), list[Planned]()
    for group in alike.values():
        named, gains = group[0].values.get("engine"), False
        if len(group) > 1 and (not exact if named is None else group[0].config.engine.name == "vectorized"):
            simulation, _ = assemble(group[0].config, UserObjects(**group[0].objects))
            gains = lockstep_reason(group[0].config, simulation) is None
        for planned in group:
            begun = (planned.folder / "config.toml").exists()
            engine: dict[str, Any] = {"name": "vectorized"}
            if begun:
                engine = make_config(read_run_config(planned.folder)).engine.model_dump()
            if engine["name"] == "vectorized" and (begun or gains) and named in (None, *_VECTORIZED):
                # A run that has begun stays with its engine and cohort.
                planned = replace(planned, values={**planned.values, "engine": engine})
            if begun:
                check_config(planned.folder, planned.config)
            if not is_done(planned):
                together = gains and planned.config.engine.name == "vectorized"
                lockstep += [planned] if together else []
                alone += [] if together else [[planned]]
    parts = max(min(jobs, len(lockstep)), -(-len(lockstep) // _AT_ONCE))
    cuts = [len(lockstep) * part // parts for part in range(parts + 1)] if parts else []
    return [*(lockstep[first:last] for first, last in pairwise(cuts)), *alone]


def _structure(planned: Planned) -> str:
    """Return a key that is equal for runs that differ only in seed, partition, rounds and float options."""
    full, objects = resolved(planned.config), planned.objects
    parts = {key: full.get(key) for key in ("data", "backbone", "model", "augment", "shift", "replay")}
    for key in ("method", "loss"):
        parts[key] = {name: v for name, v in full[key].items() if not isinstance(v, float)}
    return repr((parts, planned.values.get("engine"), {name: id(value) for name, value in objects.items()}))


def is_done(planned: Planned) -> bool:
    """Whether a run needs no resuming; one that stopped early by its hours or rounds may need it."""
    status, config = read_status(planned.folder), planned.config
    if not status:
        return False
    if status["state"] != "finished":
        return bool(status["state"] == "diverged" or status.get("round", 0) > config.rounds)
    if status.get("round", 0) >= config.rounds:
        return True
    # The run stopped early: the target may have changed since.
    records = [dict(record) for record in read_run(planned.folder, begun=False).metrics]
    return bool(records and stop_reason(config, records[-1], Progress(records)))


def _prepare(planned: Planned) -> PreparedRun:
    """Build a run, to start or to resume it."""
    objects = dict(planned.objects)
    federation = objects.pop("federation", None)
    if not (planned.folder / "config.toml").exists():
        return prepare_run(planned.config, federation, planned.folder, objects)
    # With `stop` in full: a rule that was removed must not end the run.
    changes = {key: planned.values[key] for key in RESUMABLE if key in planned.values}
    changes["stop"] = planned.config.stop.model_dump()
    return prepare_resumed(planned.folder, changes, federation, None, objects)


def _execute_batch(batch: Sequence[Planned], on_round: OnSweepRound) -> None:
    """Start or resume runs: one by itself, several in lockstep."""
    ready, threads = [], torch.get_num_threads()
    # The threads of a lockstep begin with this number.
    torch.set_num_threads(1)
    try:
        for planned in batch:
            on_round(planned, None)
            with titled_logs(planned.title):
                ready.append((planned.title, _prepare(planned), partial(on_round, planned)))
        (title, prepared, follow), *others = ready
        with titled_logs(None if others else title), suppress(Diverged):
            if others:
                run_in_lockstep(ready)
            else:
                execute_run(prepared, follow)
    finally:
        torch.set_num_threads(threads)


def _run_in_parallel(batches: list[list[Planned]], jobs: int, on_round: OnSweepRound) -> None:
    """Execute batches of runs in forked processes, with the serial engine unless another is named."""
    context = multiprocessing.get_context("fork")
    active: dict[Connection, tuple[list[Planned], BaseProcess]] = {}
    serial = {"engine": {"name": "serial"}}
    queue = [[replace(each, values={**serial, **each.values}) for each in batch] for batch in batches]
    try:
        while queue or active:
            while queue and len(active) < jobs:
                batch = queue.pop(0)
                ours, theirs = context.Pipe()
                process: BaseProcess = context.Process(
                    target=_run_child, args=(batch, theirs, [ours, *active])
                )
                process.start()
                theirs.close()
                active[ours] = (batch, process)
            for pipe in wait(list(active)):
                assert isinstance(pipe, Connection)
                batch, process = active[pipe]
                try:
                    message = pipe.recv()
                except EOFError:
                    process.join()
                    del active[pipe]
                    if process.exitcode:
                        raise RunFailed(
                            f"the process of {batch[0].folder} ended with exit code {process.exitcode}"
                        ) from None
                    continue
                if isinstance(message, Exception):
                    raise message
                if isinstance(message, logging.LogRecord):
                    logging.getLogger(message.name).handle(message)
                else:
                    number, record = message
                    on_round(batch[number], record)
    finally:
        for _, process in active.values():
            process.terminate()
            process.join(_GRACE_SECONDS)
            # A process that is stuck in native code does not react to the signal.
            process.kill()
            process.join()


def _run_child(batch: list[Planned], pipe: Connection, inherited: list[Connection]) -> None:
    """Execute a batch; send round records, log records and an exception through the pipe."""
    end_with_parent()
    keep_freed_memory()
    # The parent's torch threads do not exist in this process: waiting for them would hang.
    torch.set_num_threads(1)
    for connection in inherited:
        connection.close()
    library = logging.getLogger("eunoe")
    library.handlers, library.propagate = [PipeHandler(pipe)], False  # type: ignore[arg-type]
    folder = batch[0].folder if len(batch) == 1 else batch[0].folder.parent
    with suppress(KeyboardInterrupt):
        try:
            _execute_batch(batch, lambda planned, record: pipe.send((batch.index(planned), record)))
        except InputError as error:
            pipe.send(InputError(f"{folder}: {error}"))
        except Exception:  # Raised again in the main process.
            pipe.send(RunFailed(f"{folder}: {traceback.format_exc()}"))
    pipe.close()
