"""`eunoe run`: start or resume a run."""

from pathlib import Path
from typing import Annotated

import typer


def run(
    config: Annotated[Path | None, typer.Argument(help="A config file; if omitted, the defaults.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override an option, such as training.lr=0.1; may be repeated."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="recommended: method, averaging and rate follow from the clients.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="serial, process, vectorized or ray.")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes.")] = None,
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder; by default a new one in runs/.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run in this folder.")] = None,
    from_round: Annotated[
        int | None, typer.Option(help="With --resume: go back to the checkpoint of this round.", min=0)
    ] = None,
    report: Annotated[bool, typer.Option(help="Write report.html to the folder.")] = True,
) -> None:
    """Train a federation. `eunoe options` shows the options of a config file."""
    from eunoe.analysis.comparison import MAIN, Comparison
    from eunoe.cli.tables import show_table
    from eunoe.config.schema import make_config
    from eunoe.config.settings import apply_settings, read_config
    from eunoe.errors import InputError
    from eunoe.simulation import running as runs
    from eunoe.simulation.user_objects import apply_preset
    from eunoe.store.reader import read_run_config

    named = {"name": engine, "workers": workers, "address": address}
    chosen = [f"engine.{key}={value}" for key, value in named.items() if value is not None]
    if from_round is not None and resume is None:
        raise InputError("--from-round needs --resume")
    if resume is not None and (config is not None or out is not None or preset is not None):
        raise InputError("--resume cannot be combined with a config file, --preset or --out")
    values = read_run_config(resume) if resume else read_config(config) if config else {}
    values = apply_settings(values, [*chosen, *(set_ or [])])
    if preset is not None:
        values["preset"] = preset
    checked = make_config(values if resume else apply_preset(values))
    folder = resume or out or new_folder(checked.title, checked.seed)
    try:
        if resume is not None:
            done = runs.resume(resume, checked.model_dump(), from_round=from_round, progress=True)
        else:
            done = runs.run(checked, out=folder, progress=True)
    except KeyboardInterrupt:
        print(f"interrupted; resume with: eunoe run --resume {folder}")
        raise
    comparison = Comparison([done.read])
    show_table(comparison.table(MAIN))
    print(*comparison.warnings(), f"{done.status['reason']}; results in {folder}", sep="\n")
    if report and done.records:
        from eunoe.report.html import write_report

        print(f"report: {write_report([done.read], folder / 'report.html').resolve().as_uri()}")


def new_folder(title: str, seed: int) -> Path:
    """Return the path of a new folder in runs/."""
    from eunoe.search.sweep import folder_name

    base = Path("runs") / f"{folder_name(title)}-seed-{seed}"
    folder, number = base, 2
    while folder.exists():
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    return folder
