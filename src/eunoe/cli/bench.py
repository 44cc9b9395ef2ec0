"""`eunoe bench`: the leaderboard of methods against forgetting, and the rank of a method of your own."""

from pathlib import Path
from typing import Annotated

import typer


def bench(
    suite: Annotated[str, typer.Argument(help="quick, core, natural, or a TOML file.")] = "quick",
    entry: Annotated[
        list[Path] | None, typer.Option(help="A TOML file with an entry of your own (name, config, points).")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Your own method, as package.module:Name.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the stored leaderboard; run nothing.")] = False,
    all_entries: Annotated[
        bool, typer.Option("--all", help="Run the built-in entries too, instead of their stored results.")
    ] = False,
    only: Annotated[str, typer.Option(help="Only the settings with this text in their name.")] = "",
    repeat: Annotated[str | None, typer.Option(help="Run this entry's stored configs and compare.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Parallel runs; by default one per core.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("runs/bench"),
) -> None:
    """Rank methods by their gain over FedAvg, each tuned with four trials, on fresh seeds.

    Entries with stored results are not run again. The same command continues a bench that was cut off.
    """
    from eunoe.cli.tables import show_table
    from eunoe.errors import InputError
    from eunoe.report.pages import write_leaderboard
    from eunoe.search import bench as benches
    from eunoe.search.halving import show_progress
    from eunoe.search.suite import load_suite
    from eunoe.system.machine import cores

    loaded = load_suite(suite, only)
    if show:
        show_table(benches.stored_board(loaded).table(), f"Suite {loaded.name}")
        return
    if repeat is not None:
        with show_progress() as callbacks:
            table = benches.repeat(loaded, repeat, out, jobs or cores(), callbacks)
        show_table(table, f"Test accuracy of {repeat}")
        return
    own = benches.own_entries(entry or (), method or ())
    if not own and not all_entries:
        raise InputError("nothing to run: pass --entry, --method or --all, or --show for stored results")
    board = benches.bench(
        suite,
        entries=entry or (),
        methods=method or (),
        all_entries=all_entries,
        only=only,
        out=out,
        jobs=jobs,
        progress=True,
    )
    show_table(board.table(), f"Suite {loaded.name}")
    for each in own:
        print(board.describe(each.name))
    print(f"report: {write_leaderboard(board, out / f'{loaded.name}.html').resolve().as_uri()}")
