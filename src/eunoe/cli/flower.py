"""`eunoe flower`: deploy a federation with Flower."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from eunoe.errors import InputError, install_command

app = typer.Typer(help="A real federation over the network, with Flower.", no_args_is_help=True)


@app.command("init")
def init_folder(
    folder: Annotated[Path, typer.Argument(help="A new folder for the app and its certificates.")],
    nodes: Annotated[int, typer.Option(help="Number of nodes.")] = 3,
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name or address at which nodes reach the server; default: this machine only."),
    ] = None,
    port: Annotated[int, typer.Option(help="The server's port.")] = 8443,
    config: Annotated[Path | None, typer.Option(help="What to compute; default: a small trial.")] = None,
) -> None:
    """Write a ready-to-run Flower app with TLS, node authentication, signed apps and a proxy."""
    with _flower():
        from eunoe.flower.deploy.credentials import LOOPBACK
        from eunoe.flower.deploy.init import init
    init(folder, nodes, [*(host or ()), *LOOPBACK], port, config)
    typer.echo(f"{folder} is ready; run it on this machine with: python {folder / 'start.py'}")


@app.command("key")
def make_key(
    node: Annotated[int, typer.Argument(min=0, help="The node's number.")],
    folder: Annotated[Path, typer.Option(help="Where to write it.")] = Path(),
) -> None:
    """Make this node's key: node-N.key, which stays here, and node-N.pub for the operator."""
    with _flower():
        from eunoe.flower.deploy.credentials import fingerprint, make_node_key
    make_node_key(folder, f"node-{node}")
    public = folder / f"node-{node}.pub"
    typer.echo(f"send {public} to the operator; its fingerprint is {fingerprint(public)}")


@app.command("sign")
def sign_app(
    folder: Annotated[Path, typer.Argument(help="A folder that eunoe flower init has written.")],
    key: Annotated[Path, typer.Option(help="The operator's key, operator/signing.key.")],
) -> None:
    """Sign the app of a federation, so that its nodes run it; again after every change."""
    with _flower():
        from eunoe.flower.deploy.signing import sign
    name, digest = sign(folder, key)
    typer.echo(f"{folder / 'signed'} holds {name}, SHA-256 {digest}")


@contextmanager
def _flower() -> Iterator[None]:
    """Raise InputError if an import needs the extra `flower`, which is not installed."""
    try:
        yield
    except ImportError as error:
        raise InputError(f"{error.name} is not installed; run {install_command('flower')}") from None
