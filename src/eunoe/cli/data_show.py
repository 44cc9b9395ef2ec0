"""`eunoe data show`: statistics of a config's partition, and a figure of its clients' class shares."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eunoe.cli.sweep import read_over

if TYPE_CHECKING:
    from eunoe.data.federation import Federation


def show(
    config: Annotated[Path | None, typer.Argument(help="The config file; if omitted, the defaults.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override an option of the config, as section.option=value."),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(help="Several values side by side, such as partition.alpha=0.01,0.1,0.5,100."),
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="How many clients to draw, chosen at random.")] = 10,
    client: Annotated[list[int] | None, typer.Option(help="A client to draw; may be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="Output path: writes OUT.html and OUT.png.")] = Path("partition"),
) -> None:
    """Describe a config's partition in numbers, and draw the class shares of some clients."""
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from eunoe.config.schema import make_config
    from eunoe.config.settings import apply_settings, read_config
    from eunoe.data.statistics import label_counts, partition_numbers, sizes_only
    from eunoe.errors import InputError
    from eunoe.report.figures.partition import partition_chart
    from eunoe.report.partition_report import number_lines, partition_report, size_lines
    from eunoe.simulation.build import build_federation

    values = apply_settings(read_config(config) if config else {}, set_ or [])
    lines, panels, chosen, notes, class_names = {}, {}, client or [], "", None
    for panel, varied in _variants(values, over).items():
        settings = make_config(varied)
        federation = build_federation(settings)
        labels, classes = federation.data.train.y.numpy(), federation.classes
        owned = federation.order, federation.offsets
        notes = notes or _notes(federation)
        if federation.task.name == "regression":
            lines[panel] = size_lines(**sizes_only(federation.offsets))
            continue
        numbers = partition_numbers(labels, *owned, classes)
        lines[panel] = number_lines(numbers, classes, type(federation.task))
        chosen = chosen or _some(settings.seed, len(federation), clients)
        if not 0 <= min(chosen) <= max(chosen) < len(federation):
            raise InputError(f"{panel}: clients are numbered from 0 to {len(federation) - 1:,}, not {chosen}")
        order, offsets = owned
        counts = [label_counts(labels, order, offsets[k : k + 2], classes) for k in chosen]
        panels[panel] = np.concatenate(counts)
        class_names = federation.data.class_names
    title = f"{settings.data.name}, partitioned by {settings.partition.name}"
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column("")
    for panel in lines:
        table.add_column(panel, justify="right")
    for name in next(iter(lines.values())):
        table.add_row(name, *(column[name] for column in lines.values()))
    if not panels:
        Console().print(table, notes, "numbers to predict have no shares that could be drawn", sep="\n")
        return
    figure: Any = partition_chart(panels, chosen, class_names, task=type(federation.task))
    report, image = out.with_name(out.name + ".html"), out.with_name(out.name + ".png")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(partition_report(title, notes, lines, figure), encoding="utf-8")
        figure.save(str(image), scale_factor=2)
    except OSError as error:
        raise InputError(f"cannot write {out}.html and .png: {error.strerror}") from None
    drawn = (
        f"of {len(chosen)} of {len(federation):,} clients"
        if len(chosen) < len(federation)
        else "of all clients"
    )
    Console().print(table, notes, f"class shares {drawn}: {report}, {image}", sep="\n")


def _variants(values: dict[str, Any], over: str | None) -> dict[str, dict[str, Any]]:
    """The config's values for each value of the varied option, by panel title."""
    from eunoe.config.settings import apply_settings

    if over is None:
        return {_title(values): values}
    path, choices = read_over(over)
    option = path.rpartition(".")[2]
    return {f"{option} = {choice}": apply_settings(values, [f"{path}={choice}"]) for choice in choices}


def _title(values: dict[str, Any]) -> str:
    from eunoe.config.schema import make_config

    partition = make_config(values).partition
    return ", ".join([partition.name, *(f"{key} = {value}" for key, value in partition.options.items())])


def _some(seed: int, clients: int, wanted: int) -> list[int]:
    from eunoe.core.rng import generator

    drawn = generator(seed, "clients in the partition figure").permutation(clients)[:wanted]
    return sorted(int(k) for k in drawn)


def _notes(federation: "Federation") -> str:
    """How many samples are public, and how many the clients train, validate and test on."""
    import numpy as np

    public = [
        len(rows) for rows in (federation.public_train, federation.public_validation) if rows is not None
    ]
    ends = (federation.offsets[:-1], federation.train_end, federation.validation_end, federation.offsets[1:])
    parts = np.diff(np.stack(ends), axis=0).sum(1).tolist()
    named = zip(("train on", "validate on", "test on"), parts, strict=True)
    left = 0 if public else len(federation.data.train) - sum(parts)
    return (
        f"Of {len(federation.data.train):,} samples, clients "
        + ", ".join(f"{name} {size:,}" for name, size in named if size)
        + (f"; {' + '.join(f'{size:,}' for size in public)} are public." if public else "; none are public")
        + ("" if public else f", {left:,} are left over." if left else ".")
    )
