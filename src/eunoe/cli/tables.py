"""Tables printed to the terminal."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from eunoe.analysis.statistics import mean_std
from eunoe.analysis.tables import Table

if TYPE_CHECKING:
    from eunoe.search.journal import TrialResult

# Extra width per column: a border and a space on either side.
BORDER = 3
# The least width of the first column; other columns move to another table before it gets narrower.
NARROW = 20


def show(
    headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, note: str | None = None
) -> None:
    """Print a table with text aligned left and numbers right.

    Columns that do not fit the terminal are printed as further tables. Without a terminal a table is as wide
    as needed.
    """
    table, console = Table(headings, rows), Console()
    if not console.is_terminal:
        wide = sum(_width(table, at) + BORDER for at in range(len(headings))) + 1
        console = Console(width=max(200, wide))
    parts = list(_split(table, console.width))
    for number, part in enumerate(parts):
        first, last = number == 0, number == len(parts) - 1
        grid = Grid(
            title=title if first else None,
            title_justify="left",
            caption=note if last else None,
            caption_justify="left",
        )
        for at, heading in enumerate(part.headings):
            right = part.numeric(at)
            grid.add_column(heading, justify="right" if right else "left", no_wrap=right, overflow="fold")
        for row in part.rows:
            grid.add_row(*(Text(cell) for cell in row))
        console.print(grid)


def show_table(table: Table, title: str | None = None) -> None:
    """Print a table with its note."""
    show(table.headings, table.rows, title, table.note)


def show_trials(trials: "Sequence[TrialResult]", title: str | None = None) -> None:
    """Print the trials of a search."""
    rows = [
        [trial.label, str(trial.rounds), mean_std([trial.accuracy], 3), mean_std([trial.forgetting], 4)]
        for trial in trials
    ]
    show(["trial", "rounds", "validation", "forgetting"], rows, title)


def _split(table: Table, width: int) -> Iterator[Table]:
    """Split a table into parts that fit, each with the first column."""
    first = min(_width(table, 0), NARROW) + BORDER + 1
    used, columns = first, [0]
    for at in range(1, len(table.headings)):
        # Columns of text may wrap.
        needed = BORDER + (_width(table, at) if table.numeric(at) else min(_width(table, at), NARROW))
        if used + needed > width and len(columns) > 1:
            yield table.pick(columns)
            used, columns = first, [0]
        used += needed
        columns.append(at)
    yield table.pick(columns)


def _width(table: Table, at: int) -> int:
    return max(len(table.headings[at]), *(len(row[at]) for row in table.rows), 0)
