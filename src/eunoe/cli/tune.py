"""`eunoe tune`: the best settings by validation accuracy."""

from pathlib import Path
from typing import Annotated, Any

import typer


def tune(
    config: Annotated[Path, typer.Argument(help="The config file that all trials share.")],
    over: Annotated[
        list[str],
        typer.Option(
            help="Values of a setting, such as loss.name=ce,wsm, or a range, such as "
            "training.lr=log:0.003..0.3; may be repeated."
        ),
    ],
    budget: Annotated[
        str | None, typer.Option(help="Time for all of it, such as 30m; what is cut off can go on.")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Trials over ranges.", min=1)] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds of each trial, separated by commas; by default the config's.")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A setting of all trials.")] = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time.", min=1)] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the search; by default runs/<config>-tune.")
    ] = None,
) -> None:
    """Search settings by successive halving on validation accuracy; the test set is never read.

    All trials run a quarter of the rounds, the better half of them goes on to half of the rounds, the better
    half of those to the end. The same command goes on with a search that was cut off.
    """
    from eunoe.analysis.statistics import mean_std
    from eunoe.cli.sweep import read_over, read_seeds
    from eunoe.cli.tables import show
    from eunoe.config.schema import make_config
    from eunoe.config.settings import apply_settings, parse_value, read_config
    from eunoe.report.progress import StageBars
    from eunoe.search import tune as tuning
    from eunoe.search.budget import parse_budget
    from eunoe.search.halving import Callbacks

    values = apply_settings(read_config(config), set_ or [])
    numbers = [make_config(values).seed] if seeds is None else read_seeds(seeds)
    space: dict[str, Any] = {}
    for setting in over:
        path, items = read_over(setting)
        found = tuning.parse_range(items[0]) if len(items) == 1 else None
        space[path] = found or [parse_value(item) for item in items]
    seconds = None if budget is None else parse_budget(budget)
    folder = out or Path("runs") / f"{config.stem}-tune"
    with StageBars() as bars:
        tuned = tuning.tune(
            values,
            space,
            folder,
            seeds=numbers,
            budget=seconds,
            trials=trials,
            jobs=jobs,
            callbacks=Callbacks(bars.stage, bars.count),
        )
    rows = [
        [one.label, str(one.rounds), mean_std([one.accuracy], 3), mean_std([one.forgetting], 4)]
        for one in tuned.trials[:10]
    ]
    show(["trial", "rounds", "validation", "forgetting"], rows)
    if len(tuned.trials) > len(rows):
        print(f"and {len(tuned.trials) - len(rows)} more trials")
    if not tuned.complete:
        print("the budget ended the plan; the same command with a larger one goes on")
    print(f"best: {tuned.best.label} (on validation); eunoe run {tuned.config}; runs in {folder}")
