"""`eunoe data`: the catalog of data sets, and downloading them."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from eunoe.data.catalog import Entry

app = typer.Typer(
    help="Data sets: list, download, and show how a config partitions one.", no_args_is_help=True
)


@app.command("list")
def list_entries() -> None:
    """List the data sets: which are downloaded, with their size, classes, samples and checksum."""
    from rich.console import Console

    from eunoe.data.catalog import entries
    from eunoe.data.sources.hub import data_folder

    Console().print(_table(entries()), f"in {data_folder()}; download one with: eunoe data fetch NAME")


@app.command("fetch")
def fetch_one(
    name: Annotated[str, typer.Argument(help="The data set's name, as `eunoe data list` shows it.")],
    revision: Annotated[
        str | None,
        typer.Option(help="Branch or commit on the hub; default: the head of its parquet branch."),
    ] = None,
    force: Annotated[bool, typer.Option(help="Download it again even if it exists.")] = False,
) -> None:
    """Download a built-in data set from the Hugging Face hub and keep it as NAME.npz in the data folder."""
    from rich.console import Console

    from eunoe.data.catalog import fetch

    got = fetch(name, revision=revision, force=force)
    Console().print(_table([got]), f"in {got.path}")


def _table(rows: "list[Entry]") -> "Table":
    from rich.table import Table as Columns

    table = Columns(box=None, pad_edge=False)
    table.add_column("data set", no_wrap=True)
    for column in ("train", "test", "classes", "clients", "MB"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("SHA-256", no_wrap=True)
    table.add_column("what", overflow="fold")
    for row in rows:
        numbers = (row.train, row.test, row.classes, row.clients)
        official = {None: None, True: "official", False: "not the official arrays"}[row.official]
        what = row.problem or ", ".join(part for part in (row.source, official) if part)
        table.add_row(
            row.name,
            *("" if number is None else f"{number:,}" for number in numbers),
            "" if row.bytes is None else f"{row.bytes / 1e6:.1f}",
            row.sha256[:12] if row.sha256 else "unusable" if row.here else "not downloaded",
            what,
        )
    return table
