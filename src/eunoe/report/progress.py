"""Progress bars of runs (round, accuracy, forgetting, time left), or lines of text without a terminal."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from eunoe.store.run_records import format_main_value

Record = dict[str, Any]


class Job(Protocol):
    """A run of a sweep, as its progress bar needs it."""

    @property
    def folder(self) -> Path: ...
    @property
    def title(self) -> str: ...
    @property
    def rounds(self) -> int: ...


class Bars:
    """A progress bar per run."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not interactive(self.console),
        )
        self._tasks: dict[Any, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._progress.stop()

    def start(self, key: Any, title: str, rounds: int) -> None:
        """Add the bar of a run."""
        self._tasks[key] = self._progress.add_task(title, total=rounds, numbers="")

    def follow(self, job: Job, record: Record | None) -> None:
        """Update the bar of a run of a sweep after a round; without a record, add it."""
        if record is None:
            self.start(job.folder, job.title, job.rounds)
        else:
            self.update(job.folder, record)

    def update(self, key: Any, record: Record) -> None:
        """Update the bar of a run after a round."""
        task, numbers = self._progress.tasks[self._tasks[key]], describe(record)
        title, rounds = task.description, int(task.total or 0)
        shown = numbers or task.fields["numbers"]
        self._progress.update(task.id, completed=record["round"], numbers=shown)
        for drop in record["dropped"]:
            words = f"{title}, round {record['round']}: client {drop['client']} dropped: {drop['reason']}"
            self.console.print(words, markup=False)
        if not interactive(self.console) and record["round"] % max(rounds // 5, 1) == 0:
            self.console.print(f"{title}: round {record['round']}/{rounds} {numbers}", markup=False)


class StageBars(Bars):
    """A progress bar per stage of a search, over the rounds of all its runs."""

    _stage, _count = "", 0

    def stage(self, title: str, rounds: int) -> None:
        """Add the bar of a stage."""
        self._stage, self._count = title, 0
        self.start(title, title, max(rounds, 1))

    def count(self, job: Job, record: Record | None) -> None:
        """Count a finished round of any run."""
        if record is not None:
            self._count += 1
            self.update(self._stage, {**record, "round": self._count, "dropped": ()})


def interactive(console: Console) -> bool:
    """Return whether the console can redraw a bar: a terminal, or a notebook with widgets."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


@contextmanager
def progress_bar(
    title: str, rounds: int, on_round: Callable[[Record], None] | None, visible: bool | None
) -> Iterator[Callable[[Record], None]]:
    """Yield a callback that updates the progress bar of a run and then calls `on_round`.

    By default the bar is shown where the console can redraw it.
    """
    console = Console()
    calls = [on_round] if on_round else []
    with ExitStack() as stack:
        if interactive(console) if visible is None else visible:
            bars = stack.enter_context(Bars(console))
            bars.start(title, title, rounds)
            calls.insert(0, partial(bars.update, title))

        def update(record: Record) -> None:
            for call in calls:
                call(record)

        yield update


def describe(record: Record) -> str:
    """Format the main metric and forgetting of a round."""
    parts = [format_main_value(record[place]) for place in ("test", "validation") if place in record][:1]
    forgotten = record.get("forgetting", {}).get("round")
    if forgotten is not None:
        parts.append(f"forgotten {forgotten:.3f}")
    return " ".join(parts)
