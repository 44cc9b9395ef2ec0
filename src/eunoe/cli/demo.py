"""`eunoe demo`: what forgetting costs and what a cure pays, in a minute."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from eunoe.runs.run import Run

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
SEEDS = (0, 1, 2)
ARMS: dict[str, dict[str, Any]] = {
    "FedAvg": {},
    "FedAvg + WSM": {"loss": "wsm"},
    "SCAFFOLD + momentum": {
        "method": "scaffold",
        "server_optimizer": {"name": "momentum", "beta": 0.8, "lr": 0.2},
    },
}
TARGET = 0.85


def demo(
    out: Annotated[Path, typer.Option(help="Where the results go.")] = Path("runs/demo"),
    jobs: Annotated[int, typer.Option(help="Runs at a time.", min=1)] = 2,
) -> None:
    """Train on handwritten digits in three ways and show what each forgets, reaches and costs."""
    from eunoe.cli.tables import show
    from eunoe.records.reader import read_runs
    from eunoe.report.html import write_page
    from eunoe.runs.progress import Bars
    from eunoe.runs.sweep import Planned, execute, folder_name

    planned = [
        Planned(
            title, {**CONFIG, **arm, "seed": seed, "name": title}, out / folder_name(title) / f"seed-{seed}"
        )
        for title, arm in ARMS.items()
        for seed in SEEDS
    ]
    with Bars() as bars:
        runs = execute(planned, jobs, bars.follow)
    arms = {title: runs[i * len(SEEDS) : (i + 1) * len(SEEDS)] for i, title in enumerate(ARMS)}
    show(
        ["run", "accuracy", "forgetting", f"rounds to {TARGET:.0%}", "bytes", "seconds"],
        [row(title, arm, arms["FedAvg"]) for title, arm in arms.items()],
        title=f"20 clients with few digits each, 1 in a round; mean ± std over seeds {SEEDS[0]}-{SEEDS[-1]}",
    )
    print("\n".join(findings(arms)))
    report = write_page(read_runs([run.folder for run in runs]), out / "report.html")
    print(f"results in {out}; report: {report.resolve().as_uri()}")


def row(title: str, arm: Sequence["Run"], plain: Sequence["Run"]) -> list[str]:
    """What an arm reaches, forgets and costs; bytes are multiples of FedAvg's."""
    from eunoe.records.comparison import numbers, written

    values = [numbers(run) for run in arm]
    return [
        title,
        written([value["accuracy"] for value in values], 3),
        written([value["forgetting"] for value in values], 4),
        rounds_to(TARGET, arm),
        f"{traffic(arm) / traffic(plain):.1f}",
        written([value["seconds"] for value in values], 1),
    ]


def findings(arms: Mapping[str, Sequence["Run"]]) -> list[str]:
    """What forgetting costs FedAvg, what each cure gains on the same seeds, and what was chosen where."""
    from eunoe.records.comparison import written

    (_, plain), *cures = arms.items()
    lost = sum(run.forgetting for run in plain) / len(plain)
    lines = [
        f"Every round of FedAvg takes {100 * lost:.1f} points of accuracy from a class, gains not counted."
    ]
    for title, cure in cures:
        gained = [100 * (run.accuracy - other.accuracy) for run, other in zip(cure, plain, strict=True)]
        kept = sum(run.forgetting for run in cure) / len(cure) / lost
        lines.append(
            f"{title}: {kept:.0%} of that; accuracy up by {written(gained, 1)} points on the same seeds."
        )
    return [*lines, "The setting was chosen on other seeds (100-107)."]


def rounds_to(target: float, arm: Sequence["Run"]) -> str:
    """The first round in which the arm's mean test accuracy reaches the target."""
    import numpy as np

    rounds = arm[0].series("test.accuracy")[0]
    mean = np.mean([run.series("test.accuracy")[1] for run in arm], axis=0)
    return next((str(int(at)) for at, accuracy in zip(rounds, mean, strict=True) if accuracy >= target), "–")


def traffic(arm: Sequence["Run"]) -> int:
    """The bytes that an arm's rounds would send over a network, both ways."""
    return sum(record["bytes_up"] + record["bytes_down"] for run in arm for record in run.records)
