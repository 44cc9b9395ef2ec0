"""`eunoe tune`: search for the settings with the best validation accuracy."""

from pathlib import Path
from typing import Annotated, Any

import typer

from eunoe.cli.sweep import Engine, Exact, Jobs, Seeds, Set, read_over, read_shared

# Trials in the table.
MOST_SHOWN = 10


def tune(
    config: Annotated[Path, typer.Argument(help="The config file that all trials share.")],
    over: Annotated[
        list[str],
        typer.Option(
            help="Values of a setting, such as loss.name=ce,wsm, or a range, such as "
            "training.lr=log:0.003..0.3; may be repeated."
        ),
    ],
    budget: Annotated[str | None, typer.Option(help="Wall-clock time for all of it, such as 30m.")] = None,
    trials: Annotated[int | None, typer.Option(help="Number of trials over ranges.", min=1)] = None,
    seeds: Seeds = None,
    set_: Set = None,
    jobs: Jobs = 1,
    engine: Engine = None,
    exact: Exact = False,
    out: Annotated[Path | None, typer.Option(help="Output folder; by default runs/<config>-tune.")] = None,
) -> None:
    """Search settings by successive halving on validation accuracy; the test set is never read.

    All trials run a quarter of the rounds, the better half of them continues to half of the rounds, and the
    better half of those to the end. The same command continues a search that was cut off.
    """
    from eunoe.cli.tables import show_trials
    from eunoe.config.settings import parse_value
    from eunoe.search import tune as search
    from eunoe.search.halving import composed_privacy, parse_budget, show_progress

    values, numbers = read_shared(config, set_, engine, seeds)
    space: dict[str, Any] = {}
    for setting in over:
        path, items = read_over(setting)
        limits = search.parse_range(items[0]) if len(items) == 1 else None
        space[path] = limits or [parse_value(item) for item in items]
    seconds = None if budget is None else parse_budget(budget)
    folder = out or Path("runs") / f"{config.stem}-tune"
    with show_progress() as callbacks:
        tuned = search.tune(
            values,
            space,
            folder,
            seeds=numbers,
            budget=seconds,
            trials=trials,
            exact=exact,
            jobs=jobs,
            callbacks=callbacks,
        )
    show_trials(tuned.trials[:MOST_SHOWN])
    if len(tuned.trials) > MOST_SHOWN:
        print(f"and {len(tuned.trials) - MOST_SHOWN} more trials")
    if not tuned.complete:
        print("the budget ended the search; the same command with a larger budget continues it")
    for sentence in composed_privacy(folder):
        print(sentence)
    print(f"best on validation: {tuned.best.label}; eunoe run {tuned.config}; runs in {folder}")
