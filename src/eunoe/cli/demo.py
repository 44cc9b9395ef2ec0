"""`eunoe demo`: what forgetting costs and what a cure pays, in a minute."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from eunoe.analysis.comparison import Row
    from eunoe.simulation.run import Run

# Config and arms were chosen on seeds 100 to 107.
CONFIG: dict[str, Any] = {
    "rounds": 60,
    "participation": 1,
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.1},
    "split": {"validation": 0.2},
    "model": {"name": "mlp", "hidden": [64]},
    "training": {"epochs": 5, "batch_size": 16, "lr": 0.1},
    "evaluation": {"last": 10},
    # One client in a round makes a matrix of one cell: it is measured on the data of all twenty.
    "probes": [
        {"metric": "client_matrix", "at": [step / 10 for step in range(1, 11)], "data": "clients"},
        {"metric": "local_per_class", "at": [step / 20 for step in range(1, 21)]},
        {"metric": "drift", "at": [step / 10 for step in range(1, 11)]},
    ],
    "engine": {"name": "serial"},
    "checkpoint_seconds": 60,
}
SEEDS = (0, 1, 2, 3, 4)
ARMS: dict[str, dict[str, Any]] = {
    "FedAvg": {},
    "FedAvg + averaging": {"averaging": {"decay": 0.9}},
    "FedAvg + WSM": {"loss": "wsm"},
    "SCAFFOLD + momentum": {
        "method": "scaffold",
        "server_optimizer": {"name": "momentum", "beta": 0.8, "lr": 0.2},
    },
}

# It costs clients nothing; which remedy a run of your own needs, `eunoe cure` finds.
CURE = "FedAvg + averaging"


def demo(
    out: Annotated[Path, typer.Option(help="Where the results go.")] = Path("runs/demo"),
    jobs: Annotated[int, typer.Option(help="Runs at a time.", min=1)] = 2,
) -> None:
    """Train on handwritten digits in four ways and show what each forgets, reaches and costs."""
    from eunoe.analysis.comparison import Comparison
    from eunoe.analysis.statistics import mean_std
    from eunoe.cli.tables import show
    from eunoe.report.html import write_report
    from eunoe.report.progress import Bars
    from eunoe.search.sweep import Planned, execute, folder_name
    from eunoe.search.verdict import describe_gain
    from eunoe.store.groups import read_runs

    planned = [
        Planned(
            title, {**CONFIG, **arm, "seed": seed, "name": title}, out / folder_name(title) / f"seed-{seed}"
        )
        for title, arm in ARMS.items()
        for seed in SEEDS
    ]
    with Bars() as bars:
        runs = execute(planned, jobs, bars.follow)
    arms = {arm: [run for run in runs if run.config.title == arm] for arm in ARMS}
    rows = Comparison([run.read for run in runs]).rows
    title = f"20 clients with few digits each, 1 in a round; mean ± std over seeds {SEEDS[0]}-{SEEDS[-1]}"
    # What FedAvg reaches in the end: no number that would have to be chosen.
    target = rows[0].mean("accuracy")
    headings = ["run", "accuracy", "forgetting", f"rounds to {target:.3f}", "bytes", "seconds"]
    cells = [
        [
            row.title,
            mean_std(row.values["accuracy"], 3),
            mean_std(row.values["forgetting"], 4),
            rounds_to(target, arms[row.title]),
            f"{traffic(row) / traffic(rows[0]):.1f}",
            mean_std(row.values["seconds"], 1),
        ]
        for row in rows
    ]
    show(headings, cells, title=title)
    print("\n".join(findings(rows)))
    report = write_report(read_runs([run.folder for run in runs]), out / "report.html")
    print(f"results in {out}; report: {report.resolve().as_uri()}")
    print(describe_gain(CURE, arms["FedAvg"], arms[CURE]))


def findings(rows: Sequence["Row"]) -> list[str]:
    """What forgetting costs FedAvg, and what each cure gains on the same seeds."""
    from eunoe.analysis.statistics import mean_std

    plain, *cures = rows
    lost = plain.mean("forgetting")
    lines = [
        f"Every round of FedAvg takes {100 * lost:.1f} points of accuracy from a class, gains not counted."
    ]
    for cure in cures:
        pairs = zip(cure.values["accuracy"], plain.values["accuracy"], strict=True)
        gained = mean_std([100 * (with_it - without) for with_it, without in pairs], 1)
        kept = cure.mean("forgetting") / lost
        lines.append(f"{cure.title}: {kept:.0%} of that; accuracy up by {gained} points on the same seeds.")
    return [*lines, "The setting was chosen on other seeds (100-107)."]


def rounds_to(target: float, arm: Sequence["Run"]) -> str:
    """The first round in which the arm's mean test accuracy reaches the target."""
    import numpy as np

    rounds = arm[0].series("test.accuracy")[0]
    mean = np.mean([run.series("test.accuracy")[1] for run in arm], axis=0)
    return next((str(at) for at, accuracy in zip(rounds, mean, strict=True) if accuracy >= target), "–")


def traffic(row: "Row") -> float:
    """The bytes that a round would send over a network, both ways."""
    return row.mean("up") + row.mean("down")
