"""`eunoe report`, `eunoe figures` and `eunoe watch`: what runs forgot, in a report or in files."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Runs = Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.")]


class Format(StrEnum):
    """How a figure is written."""

    pdf = "pdf"
    svg = "svg"
    png = "png"


def report(
    runs: Runs, out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html")
) -> None:
    """Write a report of what runs forgot: one HTML file that needs no network."""
    from eunoe.records.groups import find_folders, read_runs
    from eunoe.report.html import write_report

    print(f"report: {write_report(read_runs(find_folders(runs)), out).resolve().as_uri()}")


def figures(
    runs: Runs,
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("figures"),
    format: Annotated[Format, typer.Option(help="How to write the figures.")] = Format.pdf,
) -> None:
    """Write every figure of runs as a file, in sizes that fit the columns of a paper."""
    from eunoe.records.groups import find_folders, read_runs
    from eunoe.report.export import write_figures

    for path in write_figures(read_runs(find_folders(runs)), out, format.value):
        print(path)


def watch(
    runs: Runs,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8765,
) -> None:
    """Serve the report on this machine only, and bring it up to date as rounds finish; Ctrl-C ends it."""
    from eunoe.report.live import serve

    with serve(runs, port) as server:
        print(f"watching at http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        server.serve_forever()
