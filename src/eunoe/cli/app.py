"""The eunoe command: its parts put together, and how errors and warnings are reported."""

import io
import logging
import sys
from typing import Annotated

import typer

from eunoe.cli import data, flower
from eunoe.cli.compare import compare
from eunoe.cli.cure import cure
from eunoe.cli.data_show import show
from eunoe.cli.demo import demo
from eunoe.cli.diagnose import diagnose
from eunoe.cli.export import export
from eunoe.cli.listing import list_things, options
from eunoe.cli.papers import papers, reproduce
from eunoe.cli.report import figures, report, watch
from eunoe.cli.run import run
from eunoe.cli.sweep import sweep
from eunoe.cli.tune import tune
from eunoe.errors import EunoeError, InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(sweep)
app.command()(tune)
app.command()(compare)
app.command()(diagnose)
app.command()(cure)
app.command()(report)
app.command()(figures)
app.command()(watch)
app.command()(export)
app.command("list")(list_things)
app.command()(options)
app.command()(papers)
app.command()(reproduce)
app.command()(demo)
data.app.command()(show)
app.add_typer(data.app, name="data")
app.add_typer(flower.app, name="flower")


def _version(wanted: bool) -> None:
    if wanted:
        from eunoe import __version__

        typer.echo(f"eunoe {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Federated learning that does not forget: measure it, mitigate it, show it."""


class Lines(logging.Handler):
    """What the library logs, a line each on standard error: "warning: ..."."""

    def emit(self, record: logging.LogRecord) -> None:
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        print(f"{level}{record.getMessage()}", file=sys.stderr)


def main() -> None:
    """Run the command; bad input is one line on standard error and exit code 2."""
    logger, lines = logging.getLogger("eunoe"), Lines()
    logger.setLevel(logging.INFO)
    logger.addHandler(lines)
    try:
        _main()
    finally:
        logger.removeHandler(lines)


def _main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a character shows a question mark; a run must not end for it.
            stream.reconfigure(errors="replace")
    try:
        app(standalone_mode=True)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except EunoeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
