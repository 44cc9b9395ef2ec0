"""Sweeps: runs over the product of settings and seeds, several at a time, skipping finished ones.

Each run has its own folder, named by its settings, so that an interrupted sweep continues where it
stopped, and one that gets more values or seeds runs only the new ones.
"""

import itertools
import logging
import multiprocessing
import re
import traceback
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch

from eunoe.config.schema import RESUMABLE, Config, make_config
from eunoe.config.settings import apply_settings
from eunoe.config.toml import inline
from eunoe.errors import Diverged, InputError, RunFailed
from eunoe.search.logs import captured, relog, titled
from eunoe.simulation.hooks import stop_reason
from eunoe.simulation.loop import Record
from eunoe.simulation.resuming import check_config
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.simulation.stored_config import resolved
from eunoe.store.reader import read_run, read_status
from eunoe.system.memory import keep_freed_memory
from eunoe.system.signals import end_with_the_parent, interruptible


@dataclass(frozen=True)
class Planned:
    """One run of a sweep: a label for the group of seeds it belongs to, its values and its folder.

    `given` are objects of the user's own, such as a federation, by the names that `run` takes them under.
    """

    label: str
    values: dict[str, Any]
    folder: Path
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @cached_property
    def config(self) -> Config:
        """The values, validated."""
        return make_config(self.values)

    @property
    def rounds(self) -> int:
        return self.config.rounds

    @property
    def title(self) -> str:
        """The name of the run within the sweep."""
        return f"{self.label} seed {self.config.seed}"


# How long a run may take to end once it is asked to.
_GRACE_SECONDS = 60.0

# Called when a run starts (record is None) and after each of its rounds.
OnSweepRound = Callable[[Planned, Record | None], None]


def plan(
    values: Mapping[str, Any], over: Mapping[str, Sequence[Any]], seeds: Sequence[int], out: Path
) -> list[Planned]:
    """Plan one run per combination of the settings in `over` and seed, each with a validated config."""
    if "seed" in over:
        raise InputError("a sweep takes its seeds from --seeds, as in --seeds 0,1,2: leave seed out")
    runs = []
    for combination in itertools.product(*over.values()):
        settings = dict(zip(over, combination, strict=True))
        text = [f"{path}={inline(value)}" for path, value in settings.items()]
        label = ", ".join(f"{path.removesuffix('.name')}={_shown(value)}" for path, value in settings.items())
        for seed in seeds:
            full = {**apply_settings(values, text), "seed": seed}
            if label:
                # A name that all runs share would not distinguish them.
                full["name"] = f"{values['name']}, {label}" if values.get("name") else label
            runs.append(Planned(label or "run", full, out / folder_name(label or "run") / f"seed-{seed}"))
            _ = runs[-1].config
    return runs


def folder_name(label: str) -> str:
    """A label as a file name."""
    name = re.sub(r"[^\w.=+-]+", "_", label).strip("_") or "run"
    # File systems take up to 255 bytes.
    return name if len(name) <= 60 else f"{name[:50]}-{zlib.crc32(label.encode()):08x}"


def execute(
    runs: Iterable[Planned], jobs: int = 1, on_round: OnSweepRound = lambda planned, record: None
) -> list[Run]:
    """Execute the unfinished runs, `jobs` at a time, and return all. Log messages start with a run's title.

    A run that diverges is left as it is (see its status) and the others continue; any other
    exception ends the sweep. A folder with a run of another configuration is refused.
    """
    by_folder: dict[Path, Planned] = {}
    for planned in runs:
        if by_folder.setdefault(planned.folder, planned).values != planned.values:
            raise InputError(
                f"two runs that differ would both be in {planned.folder}; sweep over one of them"
            )
        # A mistyped name must fail before the first run, not after it.
        resolved(planned.config)
        if (planned.folder / "config.toml").exists():
            check_config(planned.folder, planned.config)
    runs = list(by_folder.values())
    waiting = [planned for planned in runs if not done(planned)]
    if jobs == 1:
        for planned in waiting:
            on_round(planned, None)
            with titled(planned.title):
                _go_on(planned, partial(on_round, planned))
    else:
        with interruptible():
            _side_by_side(waiting, jobs, on_round)
    return [Run(planned.folder) for planned in runs]


def sweep(
    values: Mapping[str, Any],
    over: Mapping[str, Sequence[Any]],
    seeds: Sequence[int],
    out: Path,
    jobs: int = 1,
    on_round: OnSweepRound = lambda planned, record: None,
) -> list[Run]:
    """Plan and execute the runs of a sweep."""
    return execute(plan(values, over, seeds, out), jobs, on_round)


def _shown(value: Any) -> str:
    """A value as shown in a label: a named component by its name, then its options."""
    if not isinstance(value, Mapping):
        return str(value)
    return " ".join(str(item) if key == "name" else f"{key}={item}" for key, item in value.items())


def done(planned: Planned) -> bool:
    """Whether a run is complete: one that stopped early by its hours or rounds may have to be resumed."""
    status, config = read_status(planned.folder), planned.config
    if not status:
        return False
    if status["state"] != "finished":
        return bool(status["state"] == "diverged" or status["round"] > config.rounds)
    if status["round"] >= config.rounds:
        return True
    # The target may have changed since the run ended.
    last = read_run(planned.folder, begun=False).metrics[-1:]
    return any(stop_reason(config, dict(record), 0.0) for record in last)


def _go_on(planned: Planned, on_round: Callable[[Record], None]) -> None:
    with suppress(Diverged):
        if (planned.folder / "config.toml").exists():
            # A stopping rule that was removed must not end the run.
            stop = planned.config.stop.model_dump()
            changes = {key: planned.values[key] for key in RESUMABLE if key in planned.values}
            resume(
                planned.folder, {**changes, "stop": stop}, on_round=on_round, progress=False, **planned.given
            )
        else:
            run(planned.config, out=planned.folder, on_round=on_round, progress=False, **planned.given)


def _side_by_side(waiting: list[Planned], jobs: int, on_round: OnSweepRound) -> None:
    """Execute runs in parallel forked processes, with the serial engine unless another is named."""
    context = multiprocessing.get_context("fork")
    active: dict[Connection, tuple[Planned, BaseProcess]] = {}
    queue = list(waiting)
    try:
        while queue or active:
            while queue and len(active) < jobs:
                planned = queue.pop(0)
                values = {**planned.values}
                values.setdefault("engine", {"name": "serial"})
                ours, theirs = context.Pipe()
                process: BaseProcess = context.Process(
                    target=_child,
                    args=(replace(planned, values=values), theirs, [ours, *active]),
                )
                process.start()
                theirs.close()
                active[ours] = (planned, process)
                on_round(planned, None)
            for pipe in wait(list(active)):
                assert isinstance(pipe, Connection)
                planned, process = active[pipe]
                try:
                    message = pipe.recv()
                except EOFError:
                    process.join()
                    del active[pipe]
                    if process.exitcode:
                        raise RunFailed(
                            f"the process of {planned.folder} ended with {process.exitcode}"
                        ) from None
                    continue
                if isinstance(message, Exception):
                    raise message
                if isinstance(message, Logged):
                    relog(planned.title, message.name, message.level, message.message)
                else:
                    on_round(planned, message)
    finally:
        for _, process in active.values():
            process.terminate()
            process.join(_GRACE_SECONDS)
            # One that is stuck in native code does not see the signal.
            process.kill()
            process.join()


class Logged(NamedTuple):
    """A log record from the process of a run."""

    name: str
    level: int
    message: str


def _child(planned: Planned, pipe: Connection, inherited: list[Connection]) -> None:
    """Start or resume a run; its round records, log records and exception are sent through the pipe."""
    end_with_the_parent()
    keep_freed_memory()
    # The threads that torch had before the fork are not in this process, and waiting for them has no end.
    torch.set_num_threads(1)
    for connection in inherited:
        connection.close()

    def send(record: logging.LogRecord) -> None:
        pipe.send(Logged(record.name, record.levelno, record.getMessage()))

    with suppress(KeyboardInterrupt), captured(send):
        try:
            _go_on(planned, pipe.send)
        except InputError as error:
            pipe.send(InputError(f"{planned.folder}: {error}"))
        except Exception:  # Whatever failed here is raised in the main process.
            pipe.send(RunFailed(f"{planned.folder}: {traceback.format_exc()}"))
    pipe.close()
