"""Sweeps: runs over the product of settings and seeds, several at a time.

Each run has its own folder, named by its settings: finished runs are skipped and interrupted ones resumed, so
a sweep can be continued or extended by more values or seeds.
"""

import itertools
import logging
import multiprocessing
import re
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from logging.handlers import QueueHandler
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from eunoe.config.schema import RESUMABLE, Config, make_config
from eunoe.config.settings import apply_settings
from eunoe.config.toml import inline
from eunoe.errors import Diverged, InputError, RunFailed
from eunoe.simulation.hooks import Record, stop_reason
from eunoe.simulation.resuming import check_config
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.simulation.stored_config import resolved
from eunoe.store.reader import read_run, read_status
from eunoe.system.memory import keep_freed_memory
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

# Called when a run starts (record is None) and after each of its rounds.
OnSweepRound = Callable[[Planned, Record | None], None]


def plan(
    values: Mapping[str, Any], over: Mapping[str, Sequence[Any]], seeds: Sequence[int], out: Path
) -> list[Planned]:
    """Plan one run per seed and combination of the settings in `over`; validate all configs."""
    if "seed" in over:
        raise InputError("a sweep cannot vary 'seed' with --over: use --seeds 0,1,2")
    runs = []
    for combination in itertools.product(*over.values()):
        settings = dict(zip(over, combination, strict=True))
        text = [f"{path}={inline(value)}" for path, value in settings.items()]
        label = ", ".join(f"{path.removesuffix('.name')}={_label(value)}" for path, value in settings.items())
        for seed in seeds:
            full = {**apply_settings(values, text), "seed": seed}
            if label:
                # The base config's name alone would not distinguish the runs.
                full["name"] = f"{values['name']}, {label}" if values.get("name") else label
            runs.append(Planned(label or "run", full, out / folder_name(label or "run") / f"seed-{seed}"))
            _ = runs[-1].config
    return runs


def folder_name(label: str) -> str:
    """Return a label as a file name."""
    name = re.sub(r"[^\w.=+-]+", "_", label).strip("_") or "run"
    # File systems limit names to 255 bytes.
    return name if len(name) <= 60 else f"{name[:50]}-{zlib.crc32(label.encode()):08x}"


def execute(
    runs: Iterable[Planned], jobs: int = 1, on_round: OnSweepRound = lambda planned, record: None
) -> list[Run]:
    """Execute the unfinished runs, `jobs` at a time, and return all runs.

    Log messages start with a run's title. If a run diverges the others continue; any other exception ends
    the sweep. A folder with a run of another configuration raises an InputError.
    """
    by_folder: dict[Path, Planned] = {}
    for planned in runs:
        if by_folder.setdefault(planned.folder, planned).values != planned.values:
            raise InputError(f"two different runs have the same folder {planned.folder}: leave one out")
        # A mistyped name must fail before the first run starts.
        resolved(planned.config)
        if (planned.folder / "config.toml").exists():
            check_config(planned.folder, planned.config)
    runs = list(by_folder.values())
    waiting = [planned for planned in runs if not is_done(planned)]
    if jobs == 1:
        for planned in waiting:
            on_round(planned, None)
            with _titled_logs(planned.title):
                _start_or_resume(planned, partial(on_round, planned))
    else:
        with interruptible():
            _run_in_parallel(waiting, jobs, on_round)
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


def _label(value: Any) -> str:
    """Return a value as text: a named component by its name, then its options."""
    if not isinstance(value, Mapping):
        return str(value)
    return " ".join(str(item) if key == "name" else f"{key}={item}" for key, item in value.items())


def is_done(planned: Planned) -> bool:
    """Whether a run needs no resuming; one that stopped early by its hours or rounds may need it."""
    status, config = read_status(planned.folder), planned.config
    if not status:
        return False
    if status["state"] != "finished":
        return bool(status["state"] == "diverged" or status["round"] > config.rounds)
    if status["round"] >= config.rounds:
        return True
    # The run stopped early: the target may have changed since.
    last = read_run(planned.folder, begun=False).metrics[-1:]
    return any(stop_reason(config, dict(record), 0.0) for record in last)


def _start_or_resume(planned: Planned, on_round: Callable[[Record], None]) -> None:
    arguments = {"on_round": on_round, "progress": False, **planned.objects}
    with suppress(Diverged):
        if (planned.folder / "config.toml").exists():
            # With `stop` in full: a rule that was removed must not end the run.
            stop = planned.config.stop.model_dump()
            changes = {key: planned.values[key] for key in RESUMABLE if key in planned.values}
            resume(planned.folder, {**changes, "stop": stop}, **arguments)
        else:
            run(planned.config, out=planned.folder, **arguments)


def _run_in_parallel(waiting: list[Planned], jobs: int, on_round: OnSweepRound) -> None:
    """Execute runs in forked processes, with the serial engine unless another is named."""
    context = multiprocessing.get_context("fork")
    active: dict[Connection, tuple[Planned, BaseProcess]] = {}
    queue = list(waiting)
    try:
        while queue or active:
            while queue and len(active) < jobs:
                planned = queue.pop(0)
                values = {"engine": {"name": "serial"}, **planned.values}
                ours, theirs = context.Pipe()
                process: BaseProcess = context.Process(
                    target=_run_child, args=(replace(planned, values=values), theirs, [ours, *active])
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
                            f"the process of {planned.folder} ended with exit code {process.exitcode}"
                        ) from None
                    continue
                if isinstance(message, Exception):
                    raise message
                if isinstance(message, logging.LogRecord):
                    logging.getLogger(message.name).handle(message)
                else:
                    on_round(planned, message)
    finally:
        for _, process in active.values():
            process.terminate()
            process.join(_GRACE_SECONDS)
            # A process that is stuck in native code does not react to the signal.
            process.kill()
            process.join()


class _PipeHandler(QueueHandler):
    """Sends log records through a pipe."""

    def enqueue(self, record: logging.LogRecord) -> None:
        self.queue.send(record)  # type: ignore[attr-defined]


@contextmanager
def _titled_logs(title: str) -> Iterator[None]:
    """Prefix the library's log messages with a title."""
    make_record = logging.getLogRecordFactory()

    def make_titled(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        if record.name.startswith("eunoe."):
            record.msg, record.args = f"{title}: {record.getMessage()}", ()
        return record

    logging.setLogRecordFactory(make_titled)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make_record)


def _run_child(planned: Planned, pipe: Connection, inherited: list[Connection]) -> None:
    """Start or resume a run; send its round records, log records and exception through the pipe."""
    end_with_parent()
    keep_freed_memory()
    # The parent's torch threads do not exist in this process: waiting for them would hang.
    torch.set_num_threads(1)
    for connection in inherited:
        connection.close()
    library = logging.getLogger("eunoe")
    library.handlers, library.propagate = [_PipeHandler(pipe)], False  # type: ignore[arg-type]
    with suppress(KeyboardInterrupt), _titled_logs(planned.title):
        try:
            _start_or_resume(planned, pipe.send)
        except InputError as error:
            pipe.send(InputError(f"{planned.folder}: {error}"))
        except Exception:  # Raised again in the main process.
            pipe.send(RunFailed(f"{planned.folder}: {traceback.format_exc()}"))
    pipe.close()
