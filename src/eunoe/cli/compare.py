"""`eunoe compare`: runs side by side."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from eunoe.analysis.tables import Table


class By(StrEnum):
    """What the rows of a table are."""

    client = "client"


class ByMetric(StrEnum):
    """The metric of a comparison by client."""

    accuracy = "accuracy"
    loss = "loss"


class Format(StrEnum):
    """Output format of a table."""

    table = "table"
    md = "md"
    csv = "csv"
    latex = "latex"


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that contain some.")],
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.table,
    all_: Annotated[bool, typer.Option("--all", help="Show all columns, not the main ones only.")] = False,
    columns: Annotated[
        str | None, typer.Option(help="Columns to show, separated by commas, such as accuracy,seconds.")
    ] = None,
    paired: Annotated[
        bool,
        typer.Option("--paired", help="Show differences from the first run by seed, with 95% intervals."),
    ] = False,
    by: Annotated[By | None, typer.Option(help="client: one row per client, on its own test data.")] = None,
    metric: Annotated[
        ByMetric | None,
        typer.Option(help="With --by client: accuracy (the default where there is one) or loss."),
    ] = None,
) -> None:
    """Compare runs: mean ± standard deviation over seeds. NC: diverged; failed: ended by another error.

    The table in the terminal shows accuracy and forgetting, and all columns with --all. Other formats always
    have all columns.
    """
    from eunoe.analysis.comparison import MAIN, Comparison
    from eunoe.errors import InputError
    from eunoe.store.reader import find_folders, read_run

    comparison = Comparison([read_run(folder, begun=False) for folder in find_folders(runs)])
    if by is not None:
        if paired or columns or all_:
            raise InputError("--by client cannot be combined with --paired, --columns or --all")
        clients = comparison.by_client(None if metric is None else metric.value)
        _print(clients.table(), format)
        if format is Format.table:
            print("\n".join(clients.sentences()))
        return
    if metric is not None:
        raise InputError("--metric needs --by client")
    short = format is Format.table and not all_
    names = [name.strip() for name in columns.split(",")] if columns else []
    selected = comparison.named(names) if names else MAIN if short else None
    if paired:
        shown = [column for column in selected or comparison.columns if column in comparison.columns]
        titles = [(column.title, column.metric, column.digits) for column in shown]
        _print(comparison.paired().table(titles), format)
        return
    _print(comparison.table(selected), format)
    if short and not columns:
        others = ", ".join(column.title for column in comparison.columns if column not in MAIN)
        print(f"more columns with --all: {others}")


def _print(table: "Table", format: Format) -> None:
    from eunoe.cli.tables import show_table

    if format is Format.table:
        show_table(table)
    else:
        print({Format.md: table.markdown, Format.csv: table.csv, Format.latex: table.latex}[format]())
