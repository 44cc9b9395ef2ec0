"""`eunoe flower`: a real Flower federation of Eunoe's methods."""

from pathlib import Path
from typing import Annotated

import typer

from eunoe.errors import InputError

app = typer.Typer(help="A real federation over the network, with Flower.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """A real federation over the network, with Flower."""


@app.command("init")
def init_folder(
    folder: Annotated[Path, typer.Argument(help="A new folder for the app, its certificates and keys.")],
    nodes: Annotated[int, typer.Option(help="Number of nodes, each with its own key.")] = 3,
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name or address at which nodes reach the server; default: this machine only."),
    ] = None,
    port: Annotated[int, typer.Option(help="The server's port.")] = 8443,
    config: Annotated[Path | None, typer.Option(help="What to compute; default: a small trial.")] = None,
) -> None:
    """Write a ready-to-run Flower app with TLS and node authentication."""
    try:
        from eunoe.flower.credentials import LOOPBACK
        from eunoe.flower.init import init
    except ImportError as error:
        raise InputError(
            f"{error.name} is not installed; run pip install '.[flower]' in a clone of Eunoe"
        ) from None
    init(folder, nodes, [*(host or ()), *LOOPBACK], port, config)
    typer.echo(f"{folder} is ready; run it on this machine with: python {folder / 'start.py'}")
