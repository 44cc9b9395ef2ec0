"""`eunoe init`: write a commented config for your own data."""

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from eunoe.errors import InputError


def init(
    data: Annotated[
        str | None,
        typer.Argument(help="A CSV, Parquet or .npz file, or a folder train/<class>/, test/<class>/."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of labels or numbers; several: a,b.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of text; detected by default.")] = None,
    client: Annotated[str | None, typer.Option(help="Column of client names.")] = None,
    clients: Annotated[int | None, typer.Option(min=2, help="Clients to simulate if data name none.")] = None,
    out: Annotated[Path, typer.Option(help="The config file to write.")] = Path("config.toml"),
) -> None:
    """Write a commented config for your own data; in a terminal, ask for what is missing."""
    from eunoe.data.starter import NOTE, list_columns, starter_configs
    from eunoe.system.files import write_text

    if out.exists():
        raise InputError(f"{out} exists: pass another file as --out")
    if not out.parent.is_dir():
        raise InputError(f"cannot write {out}: there is no folder {out.parent}")
    ask = sys.stdin.isatty()
    if data is None:
        if not ask:
            raise InputError("pass your data: eunoe init DATA [--label COLUMN] [--client COLUMN]")
        data = typer.prompt("Your data (a .csv, .parquet or .npz file, or a folder of images)")
    if ask and Path(data).expanduser().exists():
        columns = list_columns(data)
        if columns is not None and label is None:
            label = typer.prompt(f"The column of labels ({', '.join(columns)})")
        if columns is not None and client is None and clients is None:
            client = typer.prompt("The column of client names (empty: simulate clients)", "") or None
    configs = starter_configs(data, label=label, text=text, client=client, clients=clients)
    config = _first_that_builds(configs)
    write_text(out, config)
    first, *others = config.splitlines()
    notes = [line for line in others if line.startswith(f"# {NOTE}")]
    typer.echo("\n".join(line.removeprefix("# ") for line in (first, *notes)))
    typer.echo(f"wrote {out}; run it with: eunoe run {out}")


def _first_that_builds(configs: Sequence[str]) -> str:
    """Return the first config whose model fits the data; raise the error of the first if none does."""
    from eunoe.config.schema import make_config
    from eunoe.simulation.build import assemble

    problems = []
    for config in configs:
        try:
            assemble(make_config(tomllib.loads(config)))
            return config
        except InputError as error:
            problems.append(error)
    raise problems[0]
