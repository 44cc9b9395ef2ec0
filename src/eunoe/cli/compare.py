"""`eunoe compare`: runs side by side."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How a table is written."""

    table = "table"
    md = "md"
    csv = "csv"
    latex = "latex"


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.")],
    format: Annotated[Format, typer.Option(help="How to write the table.")] = Format.table,
) -> None:
    """Compare runs: mean ± standard deviation over seeds; NC: it diverged, failed: it broke off otherwise."""
    from eunoe.cli.tables import show
    from eunoe.records import comparison
    from eunoe.records.reader import find_folders
    from eunoe.runs.run import Run

    found = [Run(folder) for folder in find_folders(runs)]
    headings, rows = comparison.table(found)
    if format is Format.table:
        show(headings, rows, note=comparison.legend(found))
    else:
        writers = {
            Format.md: comparison.as_markdown,
            Format.csv: comparison.as_csv,
            Format.latex: comparison.as_latex,
        }
        print(writers[format](headings, rows))
