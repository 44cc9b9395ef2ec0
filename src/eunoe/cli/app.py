"""The command `eunoe`: its subcommands, and the reporting of errors and warnings."""

import io
import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

from eunoe.cli import data, flower
from eunoe.cli.bench import bench
from eunoe.cli.compare import compare
from eunoe.cli.cure import cure
from eunoe.cli.demo import demo
from eunoe.cli.diagnose import diagnose
from eunoe.cli.doctor import doctor
from eunoe.cli.export import export
from eunoe.cli.init import init
from eunoe.cli.listing import list_components, options
from eunoe.cli.predict import predict
from eunoe.cli.report import figures, report, watch
from eunoe.cli.run import run
from eunoe.cli.sweep import sweep
from eunoe.cli.tune import tune
from eunoe.errors import EunoeError, InputError
from eunoe.system.log_lines import log_lines
from eunoe.text import one_line

app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)
for command in (init, run, sweep, tune, compare, diagnose, cure, bench, report, figures, watch, export):
    app.command()(command)
app.command()(predict)
app.command("list")(list_components)
app.command()(options)
# Commands of other packages, such as eunoe_papers.
for point in entry_points(group="eunoe.commands"):
    app.command(point.name)(point.load())
app.command()(demo)
app.command()(doctor)
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
    """Measure and prevent forgetting in federated learning."""


def main() -> None:
    """Run the command; bad input is one line on standard error and exit code 2, a system error 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the terminal cannot encode become question marks instead of ending the run.
            stream.reconfigure(errors="replace")
    try:
        # sys.stderr is read for every line, since a progress bar replaces it.
        with log_lines(lambda line: print(line, file=sys.stderr)):
            app(standalone_mode=True)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except (EunoeError, OSError) as error:
        print(f"error: {one_line(str(error))}", file=sys.stderr)
        sys.exit(1)
