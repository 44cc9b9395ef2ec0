"""Tables on the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def show(
    headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, note: str | None = None
) -> None:
    """Print a table; text columns left, numbers right. Without a terminal it is as wide as it needs to be."""
    grid = Table(title=title, title_justify="left", caption=note, caption_justify="left")
    for position, heading in enumerate(headings):
        numeric = position > 0 and all(is_number(row[position]) for row in rows)
        grid.add_column(heading, justify="right" if numeric else "left", no_wrap=position == 0)
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(grid)


def is_number(text: str) -> bool:
    """Whether a cell is a number, with or without its deviation, or says that there is none."""
    return text.replace("±", "").replace("–", "").replace("NC", "").strip(" 0123456789.,%+-e") == ""
