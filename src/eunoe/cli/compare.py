"""`eunoe compare`: runs side by side."""

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from eunoe.cli.report import Names, split_names

if TYPE_CHECKING:
    from eunoe.analysis.tables import Table


Format = Literal["table", "md", "csv", "json", "latex"]


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that contain some.")],
    format: Annotated[Format, typer.Option(help="Output format.")] = "table",
    all_: Annotated[bool, typer.Option("--all", help="Show all columns, not the main ones only.")] = False,
    columns: Annotated[
        str | None,
        typer.Option("--columns", "--column", help="Columns, separated by commas, such as accuracy,auroc."),
    ] = None,
    paired: Annotated[
        bool,
        typer.Option("--paired", help="Show differences from the first run by seed, with 95% intervals."),
    ] = False,
    by: Annotated[
        Literal["client"] | None, typer.Option(help="client: one row per client, on its own test data.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="With --by client: accuracy (default where there is one), loss or a further one."),
    ] = None,
    names: Names = None,
) -> None:
    """Compare runs: mean ± standard deviation over seeds. NC: diverged; failed: ended by another error.

    The table in the terminal shows accuracy and forgetting, and all columns with --all. Other formats always
    have all columns.
    """
    from eunoe.analysis.comparison import MAIN, Comparison
    from eunoe.errors import InputError
    from eunoe.store.reader import find_folders, read_run

    # Records are many and have no cycles to collect.
    gc.disable()
    records = [read_run(folder, begun=False, whole=False) for folder in find_folders(runs)]
    comparison = Comparison(records, split_names(names))
    if by is not None:
        if paired or columns or all_:
            raise InputError("--by client cannot be combined with --paired, --columns or --all")
        clients = comparison.by_client(metric)
        _print(clients.table(), format)
        if format == "table":
            print("\n".join(clients.sentences()))
        return
    if metric is not None:
        raise InputError("--metric needs --by client")
    short = format == "table" and not all_
    chosen = [name.strip() for name in columns.split(",")] if columns else []
    selected = comparison.find_columns(chosen) if chosen else MAIN if short else None
    if paired:
        _print(comparison.paired().table(comparison.select(selected)), format)
        return
    _print(comparison.table(selected), format)
    for warning in comparison.warnings() if format == "table" else ():
        print(warning)
    if short and not columns:
        main = comparison.select(MAIN)
        others = ", ".join(column.title for column in comparison.columns if column not in main)
        print(f"more columns with --all: {others}")


def _print(table: "Table", format: Format) -> None:
    from eunoe.cli.tables import show_table

    if format == "table":
        show_table(table)
    else:
        print({"md": table.markdown, "csv": table.csv, "json": table.json, "latex": table.latex}[format]())
