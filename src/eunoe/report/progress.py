"""Progress of runs: a bar each (round, accuracy, forgetting, time left), or lines without a terminal."""

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
    """A run of a sweep, as far as its bar shows it."""

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
        self._titles: dict[Any, tuple[str, int]] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._progress.stop()

    def start(self, key: Any, title: str, rounds: int) -> None:
        """Add the bar of a run."""
        self._titles[key] = (title, rounds)
        self._tasks[key] = self._progress.add_task(title, total=rounds, numbers="")

    def follow(self, planned: Job, record: Record | None) -> None:
        """Add the bar of a run of a sweep (no record), or update it after a round."""
        if record is None:
            self.start(planned.folder, planned.title, planned.rounds)
        else:
            self.update(planned.folder, record)

    def update(self, key: Any, record: Record) -> None:
        """Update the bar of a run after a round."""
        title, rounds = self._titles[key]
        numbers = describe(record)
        task = self._tasks[key]
        fields = {"numbers": numbers} if numbers else {}
        self._progress.update(task, completed=record["round"], **fields)  # type: ignore[arg-type]
        for drop in record["dropped"]:
            self.console.print(
                f"{title}, round {record['round']}: client {drop['client']} dropped: {drop['reason']}",
                markup=False,
            )
        if not interactive(self.console) and record["round"] % max(rounds // 5, 1) == 0:
            self.console.print(f"{title}: round {record['round']}/{rounds} {numbers}", markup=False)


class StageBars(Bars):
    """A bar per stage of a search, which counts the rounds of all of its runs."""

    _stage, _count = "", 0

    def stage(self, title: str, rounds: int) -> None:
        """Begin the bar of a stage."""
        self._stage, self._count = title, 0
        self.start(title, title, max(rounds, 1))

    def count(self, planned: Job, record: Record | None) -> None:
        """Show that a run has come a round further."""
        if record is not None:
            self._count += 1
            self.update(self._stage, {**record, "round": self._count, "dropped": ()})


def interactive(console: Console) -> bool:
    """Whether the console can redraw a bar: a terminal, or a notebook with widgets."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


@contextmanager
def following(
    title: str, rounds: int, on_round: Callable[[Record], None] | None, wanted: bool | None
) -> Iterator[Callable[[Record], None]]:
    """A callback for the rounds of a run, which updates a bar and then calls `on_round`.

    If `wanted` is None, the bar is shown where the console can redraw it.
    """
    console = Console()
    calls = [on_round] if on_round else []
    with ExitStack() as stack:
        if interactive(console) if wanted is None else wanted:
            bars = stack.enter_context(Bars(console))
            bars.start(title, title, rounds)
            calls.insert(0, partial(bars.update, title))

        def follow(record: Record) -> None:
            for call in calls:
                call(record)

        yield follow


def describe(record: Record) -> str:
    """Accuracy and forgetting of a round as short text."""
    parts = []
    for place in ("test", "validation"):
        if place in record:
            parts.append(format_main_value(record[place]))
            break
    forgotten = record.get("forgetting", {}).get("round")
    if forgotten is not None:
        parts.append(f"forgotten {forgotten:.3f}")
    return " ".join(parts)
