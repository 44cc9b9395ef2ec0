"""`eunoe cure`: a better model for a run that forgets, and by how much it is better."""

from pathlib import Path
from typing import Annotated

import typer


def cure(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    budget: Annotated[str, typer.Option(help="Wall-clock time for all of it, such as 15m.")] = "15m",
    seeds: Annotated[
        int | None,
        typer.Option(help="Fresh seeds to judge on; by default 5 to 20, as many as fit.", min=5),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time; by default one per core.", min=1)] = None,
    out: Annotated[Path | None, typer.Option(help="Where the results go; by default <RUN>-cure.")] = None,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")
    ] = True,
) -> None:
    """Search a remedy on validation data, judge it on fresh seeds, and write its config.

    The search, on seeds of its own, is planned for half of the budget. The best remedy and the run as it is
    are then run on fresh seeds, from which alone the table and the interval come. If the interval is not
    above zero, or the run forgets little, it is to stay as it is. The budget is the time that the command
    takes at most; the same command goes on with what was cut off.
    """
    from eunoe.analysis.statistics import mean_std
    from eunoe.cli.tables import show
    from eunoe.search.cure import cure as find

    found = find(run, budget=budget, seeds=seeds, jobs=jobs, out=out, progress=True)
    if found.search:
        show(
            ["tried", "rounds", "validation", "forgetting"],
            [
                [one.label, str(one.rounds), mean_std([one.accuracy], 3), mean_std([one.forgetting], 4)]
                for one in found.search
            ],
            title="The search, on its own seeds",
        )
    if found.table:
        show(found.table.headings, found.table.rows, title="On fresh seeds", note=found.table.note)
    print("\n".join(found.sentences))
    if found.config:
        print(f"config: eunoe run {found.config}")
    if report and found.runs:
        from eunoe.report.figures.search import search_figures
        from eunoe.report.html import write_report
        from eunoe.store.groups import find_folders
        from eunoe.store.reader import read_run

        places = find_folders([found.folder / "search"]) if found.search else []
        searched = [read_run(place, begun=False) for place in places]
        path = write_report(
            [one.read for one in found.runs],
            found.folder / "report.html",
            search_figures(searched),
        )
        print(f"report: {path.resolve().as_uri()}")
