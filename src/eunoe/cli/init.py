"""`eunoe init`: a commented config for your own data, after three questions or from flags."""

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer


def init(
    data: Annotated[
        str | None,
        typer.Argument(help="A CSV, Parquet or .npz file, or a folder train/<class>/, test/<class>/."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="A table's column of labels or numbers; several: a,b.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Its column of sentences; found if not named.")] = None,
    client: Annotated[str | None, typer.Option(help="Its column that says whose row it is.")] = None,
    clients: Annotated[
        int | None, typer.Option(min=2, help="Clients to simulate where the data have none.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The config file to write.")] = Path("config.toml"),
) -> None:
    """Write a commented config for your own data; what is not passed is asked for in a terminal."""
    from eunoe.data.starter import list_columns, starter_configs
    from eunoe.errors import InputError
    from eunoe.system.files import write_text

    if data is not None and not Path(data).expanduser().exists():
        raise InputError(f"there is no file or folder {data}")
    if out.exists():
        raise InputError(f"{out} exists; name another file with --out")
    if not out.parent.is_dir():
        raise InputError(f"there is no folder {out.parent} to write {out.name} to")
    ask = sys.stdin.isatty()
    if data is None:
        if not ask:
            raise InputError("name your data: eunoe init DATA [--label COLUMN] [--client COLUMN]")
        data = typer.prompt("Your data (a .csv, .parquet or .npz file, or a folder of images)")
    if ask and Path(data).expanduser().exists():
        columns = list_columns(data)
        if columns is not None and label is None:
            label = typer.prompt(f"The column of labels ({', '.join(columns)})")
        if columns is not None and client is None and clients is None:
            client = (
                typer.prompt("The column that says whose row it is (empty: simulate clients)", "") or None
            )
    configs = starter_configs(data, label=label, text=text, client=client, clients=clients)
    config = _first_that_builds(configs)
    write_text(out, config)
    typer.echo(f"{config.splitlines()[0].removeprefix('# ')}\nwrote {out}; run it with: eunoe run {out}")


def _first_that_builds(configs: Sequence[str]) -> str:
    """Return the first config whose model fits the data; raise the error of the first if none does."""
    from eunoe.config.schema import make_config
    from eunoe.errors import InputError
    from eunoe.simulation.build import assemble

    problems = []
    for config in configs:
        try:
            assemble(make_config(tomllib.loads(config)))
        except InputError as error:
            problems.append(error)
        else:
            return config
    raise problems[0]
