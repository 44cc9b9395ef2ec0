"""`eunoe compare`: runs side by side."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from eunoe.analysis.tables import Table


class By(StrEnum):
    """What a table has rows of besides runs."""

    client = "client"


class ByMetric(StrEnum):
    """What is compared by client."""

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
    all_: Annotated[
        bool, typer.Option("--all", help="Show every column, not only accuracy and forgetting.")
    ] = False,
    columns: Annotated[
        str | None, typer.Option(help="The columns to show, separated by commas, such as accuracy,seconds.")
    ] = None,
    paired: Annotated[
        bool,
        typer.Option(
            "--paired", help="Show differences from the first run by seed, with 95% intervals of their means."
        ),
    ] = False,
    by: Annotated[
        By | None,
        typer.Option(help="client: a row per client, on its own test data; who gains and who pays."),
    ] = None,
    metric: Annotated[
        ByMetric | None,
        typer.Option(help="With --by client: accuracy (the default where there is one) or loss."),
    ] = None,
) -> None:
    """Compare runs: mean ± standard deviation over seeds; NC: diverged, failed: ended by another error.

    The terminal table shows accuracy and forgetting, and all columns with --all; the other formats
    always have all columns.
    """
    from eunoe.analysis.comparison import MAIN, Comparison
    from eunoe.cli.tables import show
    from eunoe.errors import InputError
    from eunoe.store.groups import find_folders
    from eunoe.store.reader import read_run

    found = Comparison([read_run(folder, begun=False) for folder in find_folders(runs)])
    if by is not None:
        if paired or columns or all_:
            raise InputError("--by client has columns of its own: leave --paired, --columns and --all out")
        clients = found.by_client(None if metric is None else metric.value)
        table = clients.table()
        if format is Format.table:
            show(table.headings, table.rows, note=table.note)
            print("\n".join(clients.sentences()))
        else:
            print(_written(table, format))
        return
    if metric is not None:
        raise InputError("--metric says what is compared with --by client: add that, or leave it out")
    short = format is Format.table and not all_
    picked = (
        found.named([name.strip() for name in columns.split(",")]) if columns else MAIN if short else None
    )
    if paired:
        shown = [column for column in picked or found.columns if column in found.columns]
        table = found.paired().table([(column.title, column.metric, column.digits) for column in shown])
    else:
        table = found.table(picked)
    if format is Format.table:
        show(table.headings, table.rows, note=table.note)
        if short and not columns and not paired:
            further = ", ".join(column.title for column in found.columns if column not in MAIN)
            print(f"--all shows also: {further}")
    else:
        print(_written(table, format))


def _written(table: "Table", format: Format) -> str:
    return {Format.md: table.markdown, Format.csv: table.csv, Format.latex: table.latex}[format]()
