"""`eunoe report`, `eunoe figures` and `eunoe watch`: the report of runs as a file, figures, or live."""

import gc
from pathlib import Path
from typing import Annotated, Literal

import typer

Runs = Annotated[list[Path], typer.Argument(help="Run folders, or folders that contain some.")]
Names = Annotated[str | None, typer.Option(help="New names, in the table's order, separated by commas.")]


def split_names(names: str | None) -> list[str]:
    """Return the names in an option."""
    return [name.strip() for name in names.split(",")] if names else []


def report(
    runs: Runs,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    names: Names = None,
    live: Annotated[bool, typer.Option("--live", help="See eunoe watch, which follows runs.")] = False,
) -> None:
    """Write the report of runs as one self-contained HTML file."""
    from eunoe.errors import InputError
    from eunoe.report.html import write_report
    from eunoe.store.reader import find_folders, read_runs

    if live:
        raise InputError(f"a report is a file: for a live view run eunoe watch {' '.join(map(str, runs))}")

    # Records are many and have no cycles to collect.
    gc.disable()
    path = write_report(read_runs(find_folders(runs), split_names(names)), out)
    print(f"report: {path.resolve().as_uri()}")


def figures(
    runs: Runs,
    out: Annotated[Path, typer.Option(help="The output folder.")] = Path("figures"),
    format: Annotated[Literal["pdf", "svg", "png"], typer.Option(help="Output format.")] = "pdf",
    names: Names = None,
) -> None:
    """Write every figure of runs as a file, sized for the columns of a paper."""
    from eunoe.report.export import write_figures
    from eunoe.store.reader import find_folders, read_runs

    for path in write_figures(read_runs(find_folders(runs), split_names(names)), out, format):
        print(path)


def watch(
    runs: Runs,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 8765,
    names: Names = None,
) -> None:
    """Serve the report and the state of runs on localhost, updated as rounds finish; stop with Ctrl-C.

    Runs of a Flower federation are watched on the server's machine.
    """
    from eunoe.report.live import serve

    with serve(runs, port, split_names(names)) as server:
        print(f"watching at http://127.0.0.1:{server.server_port}/ (stop with Ctrl-C)", flush=True)
        server.serve_forever()
