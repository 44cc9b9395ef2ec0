"""`eunoe cure`: find a remedy for a run that forgets, and measure its gain."""

from pathlib import Path
from typing import Annotated

import typer


def cure(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    budget: Annotated[str, typer.Option(help="Wall-clock time for all of it, such as 15m.")] = "15m",
    trials: Annotated[
        int | None, typer.Option(help="Number of remedies to try; by default as many as fit.", min=1)
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Number of fresh seeds; by default 5 to 10, as many as fit.", min=5)
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="What to improve instead of accuracy: balanced_accuracy, macro_f1, auroc, worst_class or "
            "worst_client."
        ),
    ] = None,
    retain_at_least: Annotated[
        float | None,
        typer.Option(help="Only models that retain this share on the reference sets count, such as 0.95."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Parallel runs; by default one per core.", min=1)] = None,
    out: Annotated[Path | None, typer.Option(help="Output folder; by default <RUN>-cure.")] = None,
    report: Annotated[bool, typer.Option(help="Write report.html to the folder.")] = True,
) -> None:
    """Search for a remedy on validation data, judge it on fresh seeds, and write its config.

    The search uses its own seeds. The best remedy and the baseline then run on fresh seeds, each given by its
    best checkpoint. If the 95% interval of the gain is not above zero, the baseline is kept. The budget
    limits the time of the command; the same command continues a cure that was cut off.
    """
    from eunoe.cli.tables import show_table, show_trials
    from eunoe.search import cure as search

    result = search.cure(
        run,
        budget=budget,
        trials=trials,
        seeds=seeds,
        metric=metric,
        retain_at_least=retain_at_least,
        jobs=jobs,
        out=out,
        progress=True,
    )
    if result.search:
        show_trials(result.search, "Search, on its own seeds")
    if result.table:
        show_table(result.table, "On fresh seeds")
    print("\n".join(result.sentences))
    if result.config:
        print(f"config: eunoe run {result.config}")
    if report and result.runs:
        from eunoe.report.figures.search import search_figures
        from eunoe.report.html import write_report
        from eunoe.store.reader import find_folders, read_run

        folders = find_folders([result.folder / "search"]) if result.search else []
        records = [each.read for each in result.runs]
        labels = list(dict.fromkeys(run.label for run in records))
        figures = search_figures([read_run(folder, begun=False) for folder in folders], labels)
        path = write_report(records, result.folder / "report.html", figures)
        print(f"report: {path.resolve().as_uri()}")
