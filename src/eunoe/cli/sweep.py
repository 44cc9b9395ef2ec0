"""`eunoe sweep`: runs over a product of settings and seeds."""

from pathlib import Path
from typing import Annotated, Any

import typer

from eunoe.errors import InputError

# Options of several commands.
Seeds = Annotated[str | None, typer.Option(help="Seeds, such as 0,1,2; by default the config's.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Override an option in all runs.")]
Jobs = Annotated[int, typer.Option(help="Processes.", min=1)]
Engine = Annotated[str | None, typer.Option(help="Engine of all runs: no lockstep.")]
Exact = Annotated[bool, typer.Option("--exact", help="The bits of engine serial: no lockstep.")]


def sweep(
    config: Annotated[Path, typer.Argument(help="The config file that all runs share.")],
    over: Annotated[
        list[str] | None,
        typer.Option(help="Values of an option, such as loss.name=ce,tce,wsm; may be repeated."),
    ] = None,
    seeds: Seeds = None,
    set_: Set = None,
    out: Annotated[Path | None, typer.Option(help="Output folder; by default runs/<config>.")] = None,
    jobs: Jobs = 1,
    engine: Engine = None,
    exact: Exact = False,
) -> None:
    """Run the product of settings; skip finished runs and resume unfinished ones.

    Runs of small models train in lockstep, which changes the last bits of their results.
    """
    from eunoe.analysis.comparison import MAIN, Comparison
    from eunoe.cli.tables import show_table
    from eunoe.config.settings import parse_value
    from eunoe.report.progress import Bars
    from eunoe.search.sweep import plan
    from eunoe.simulation.many import execute

    values, numbers = read_shared(config, set_, engine, seeds)
    folder = out or Path("runs") / config.stem
    pairs = [read_over(setting) for setting in over or []]
    product = {path: [parse_value(item) for item in items] for path, items in pairs}
    with Bars() as bars:
        done = execute(plan(values, product, numbers, folder), jobs, bars.follow, exact)
    show_table(Comparison([run.read for run in done]).table(MAIN))
    print(f"runs in {folder}")


def read_shared(
    config: Path, set_: list[str] | None, engine: str | None, seeds: str | None
) -> tuple[dict[str, Any], list[int]]:
    """Return the config values that all runs share, and their seeds."""
    from eunoe.config.schema import make_config
    from eunoe.config.settings import apply_settings, read_config

    settings = [*(set_ or []), *([] if engine is None else [f"engine.name={engine}"])]
    values = apply_settings(read_config(config), settings)
    return values, [make_config(values).seed] if seeds is None else read_seeds(seeds)


def read_seeds(text: str) -> list[int]:
    """Parse seeds separated by commas."""
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise InputError(f"--seeds {text!r} must be integers separated by commas") from None


def read_over(setting: str) -> tuple[str, list[str]]:
    """Split a setting such as loss.name=ce,wsm into its option and the texts of its values."""
    path, _, text = (part.strip() for part in setting.partition("="))
    items = [item.strip() for item in split_values(text)]
    if not path or not all(items):
        raise InputError(f"invalid --over {setting!r}: write it as section.option=x,y")
    return path, items


def split_values(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for character in text:
        if character == '"':
            quoted = not quoted
        depth += (character in "[{") - (character in "]}")
        if character == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return parts
