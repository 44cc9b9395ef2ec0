"""`eunoe data`: list and download data sets, and show how a config partitions one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eunoe.cli.sweep import read_over

if TYPE_CHECKING:
    from eunoe.data.federation import Federation
    from eunoe.data.loading import Entry

app = typer.Typer(help="Data sets: list, download, show how a config partitions one.", no_args_is_help=True)


@app.command("list")
def list_entries() -> None:
    """List the data sets: whether they are downloaded, size, classes, samples and checksum."""
    from eunoe.data.loading import entries
    from eunoe.data.sources.hub import data_folder

    _show_entries(entries())
    print(f"in {data_folder()}; download one with: eunoe data fetch NAME")


@app.command("fetch")
def fetch_one(
    name: Annotated[str, typer.Argument(help="The data set's name, as `eunoe data list` shows it.")],
    revision: Annotated[
        str | None,
        typer.Option(help="Branch or commit on the hub; by default the head of the parquet branch."),
    ] = None,
    force: Annotated[bool, typer.Option(help="Download it again even if it exists.")] = False,
) -> None:
    """Download a built-in data set from the Hugging Face hub to NAME.npz in the data folder."""
    from eunoe.data.builtin import path_of
    from eunoe.data.loading import fetch

    _show_entries([fetch(name, revision=revision, force=force)])
    print(f"in {path_of(name)}")


@app.command()
def show(
    config: Annotated[Path | None, typer.Argument(help="The config file; if omitted, the defaults.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override an option of the config, as section.option=value."),
    ] = None,
    over: Annotated[str | None, typer.Option(help="Compare values, as partition.alpha=0.01,0.1,100.")] = None,
    clients: Annotated[int, typer.Option(min=1, help="Number of clients to draw, chosen at random.")] = 10,
    client: Annotated[list[int] | None, typer.Option(help="A client to draw; may be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="Output path: writes OUT.html.")] = Path("partition"),
) -> None:
    """Show statistics of a config's partition, and plot the class shares of some clients."""
    import numpy as np

    from eunoe.analysis.tables import Table
    from eunoe.cli.tables import show_table
    from eunoe.config.schema import make_config
    from eunoe.config.settings import apply_settings, read_config
    from eunoe.core.rng import generator
    from eunoe.core.tasks import LABELED
    from eunoe.data.federation import PARTS
    from eunoe.data.statistics import size_numbers, summarize
    from eunoe.errors import InputError
    from eunoe.report.figures.partition import partition_chart
    from eunoe.report.pages import number_lines, size_lines, write_partition_report
    from eunoe.simulation.build import build_federation

    values = apply_settings(read_config(config) if config else {}, set_ or [])
    lines, panels, drawn, notes, class_names = {}, {}, client or [], "", None
    for panel, varied in _variants(values, over).items():
        settings = make_config(varied)
        federation = build_federation(settings)
        sizes = np.diff(federation.offsets)
        notes = notes or _notes(federation)
        if federation.task.name not in LABELED:
            lines[panel] = size_lines(**size_numbers(sizes))
            continue
        counts = np.sum([federation.all_counts(part) for part in PARTS], axis=0)
        lines[panel] = number_lines(summarize(counts, sizes), federation.classes, type(federation.task))
        chance = generator(settings.seed, "clients in the partition figure")
        drawn = drawn or sorted(chance.permutation(len(federation))[:clients].tolist())
        if not 0 <= min(drawn) <= max(drawn) < len(federation):
            raise InputError(f"{panel}: clients are numbered from 0 to {len(federation) - 1:,}, not {drawn}")
        panels[panel] = counts[drawn]
        class_names = federation.data.class_names
    title = f"{settings.data.name}, partitioned by {settings.partition.name}"
    names = next(iter(lines.values()))
    table = Table(["", *lines], [[name, *(column[name] for column in lines.values())] for name in names])
    show_table(table, title)
    print(notes)
    if not panels:
        print("regression targets have no class shares to plot")
        return
    figure: Any = partition_chart(panels, drawn, class_names, task=type(federation.task))
    report = write_partition_report(Path(f"{out}.html"), title, notes, table, figure)
    some = f"{len(drawn)} of {len(federation):,}" if len(drawn) < len(federation) else "all"
    print(f"class shares of {some} clients: {report}")


def _variants(values: dict[str, Any], over: str | None) -> dict[str, dict[str, Any]]:
    """Return the config's values for each value of the varied option, by panel title."""
    from eunoe.config.schema import make_config
    from eunoe.config.settings import apply_settings

    if over is None:
        partition = make_config(values).partition
        options = (f"{key} = {value}" for key, value in partition.options.items())
        return {", ".join([partition.name, *options]): values}
    path, choices = read_over(over)
    option = path.rpartition(".")[2]
    return {f"{option} = {choice}": apply_settings(values, [f"{path}={choice}"]) for choice in choices}


def _notes(federation: "Federation") -> str:
    """Describe how many samples clients train, validate and test on, and how many are public."""
    from eunoe.data.federation import PARTS

    both = (federation.public_train, federation.public_validation)
    public = [len(rows) for rows in both if rows is not None]
    parts = [len(federation.pooled(part)[0]) for part in PARTS]
    named = zip(("train on", "validate on", "test on"), parts, strict=True)
    left = 0 if public else len(federation.data.train) - sum(parts)
    return (
        f"Of {len(federation.data.train):,} samples, clients "
        + ", ".join(f"{name} {size:,}" for name, size in named if size)
        + (f"; {' + '.join(f'{size:,}' for size in public)} are public." if public else "; none are public")
        + ("" if public else f", {left:,} are left over." if left else ".")
    )


def _show_entries(entries: "list[Entry]") -> None:
    from eunoe.cli.tables import show
    from eunoe.data.loading import COLUMNS

    show(list(COLUMNS), [[entry.get(column, "") for column in COLUMNS] for entry in entries])
