"""`eunoe papers` and `eunoe reproduce`: list and reproduce the papers' tables and figures."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from eunoe.cli.sweep import read_seeds
from eunoe.errors import InputError, install_command

if TYPE_CHECKING:
    from eunoe_papers.experiment import Experiment, PlannedRun, Scale, Source
    from eunoe_papers.reproduce import Limits
    from eunoe_papers.results import Results

OUT = Path("runs/papers")
RESULTS = Path("results")
# Runs estimated to take longer need a confirmation.
LONG = 3600

Out = Annotated[Path, typer.Option(help="Folder of your runs.")]
Stored = Annotated[Path, typer.Option(help="Folder of stored results.")]


def papers(
    name: Annotated[str | None, typer.Argument(help="A table or figure to show in detail.")] = None,
    out: Out = OUT,
    results: Stored = RESULTS,
) -> None:
    """List every table and figure of the papers: its data, its cost, and which runs exist."""
    from eunoe_papers.loader import experiments, find_experiment

    if name is not None:
        _show_one(find_experiment(name), out, results)
    else:
        _show_all(list(experiments().values()), out, results)


def reproduce(
    name: Annotated[str, typer.Argument(help="A table or figure, as `eunoe papers` lists it.")],
    scale: Annotated[
        str | None,
        typer.Option(
            help="small: minutes on two cores; medium: up to 25 minutes a run on one core, where there is "
            "such a scale; full: the paper's experiment. By default small, and with --report whatever has "
            "been run."
        ),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Seeds, separated by commas.")] = None,
    stand_in: Annotated[
        bool, typer.Option("--stand-in", help="Run on other data where the paper's are absent.")
    ] = False,
    only: Annotated[
        str, typer.Option(help="Only the arm of this name, or arms that contain these words.")
    ] = "",
    jobs: Annotated[int, typer.Option(help="Runs at a time.", min=1)] = 2,
    rounds: Annotated[
        int | None, typer.Option(help="Rounds to run for now; a later call can continue.")
    ] = None,
    hours: Annotated[
        float | None, typer.Option(help="Hours after which a run stops; started again, it continues.")
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Run nothing; show existing or stored results.")
    ] = False,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Run nothing; print the config as TOML for `eunoe run`.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Run it even if it takes more than an hour.")] = False,
    out: Out = OUT,
    results: Stored = RESULTS,
) -> None:
    """Reproduce a table or figure, skipping finished runs; print the paper's numbers, ours, and the gap."""
    from eunoe.config.settings import to_toml
    from eunoe_papers.loader import find_experiment
    from eunoe_papers.reproduce import Limits

    # An experiment refuses a scale that it does not have.
    experiment, chosen = find_experiment(name), cast("Scale | None", scale)
    if report:
        _report(experiment, chosen, out, results)
        return
    chosen = chosen or "small"
    planned = experiment.plan(chosen, None if seeds is None else read_seeds(seeds), stand_in, only, out)
    if not print_config:
        _run(experiment, chosen, planned, Limits(rounds, hours), jobs, yes, out)
        return
    arms = list(dict.fromkeys(run.line for run in planned))
    if len(arms) > 1:
        names = ", ".join(map(repr, arms))
        raise InputError(f"--print-config prints one config, not {len(arms)}: add --only with one of {names}")
    print(f"# {arms[0]}\n{to_toml(planned[0].values)}")


def _run(
    experiment: "Experiment",
    scale: "Scale",
    planned: "Sequence[PlannedRun]",
    limits: "Limits",
    jobs: int,
    yes: bool,
    out: Path,
) -> None:
    from eunoe.report.progress import Bars
    from eunoe_papers import reproduce as running
    from eunoe_papers.drawing import draw

    seconds = limits.estimate_seconds(running.select_pending(planned, limits))
    if seconds > LONG and not yes:
        cost = f"{experiment.name} at {scale} scale takes about {duration(seconds)} of one core"
        if not sys.stdin.isatty():
            raise InputError(f"{cost}; add --yes to run it, or --only, --rounds or --hours to run less")
        typer.confirm(f"{cost}. Run it?", abort=True)
    with Bars() as bars:
        running.reproduce(experiment, planned, limits, jobs, bars.follow)
    results, runs = running.collect_folders(experiment, scale, out)
    _show_results(results)
    for data, path in running.find_missing(planned).items():
        print(f"skipped: runs on {data} ({path} not found); --stand-in runs them on other data")
    folder = out / experiment.name / scale
    print(f"runs in {out / experiment.owner / scale}, summary in {folder}")
    if not find_spec("vl_convert"):
        print(f"for its figure: {install_command('figures')}")
    elif figure := draw(results, runs, folder / f"{experiment.name}.svg"):
        print(f"figure in {figure}")


def _report(experiment: "Experiment", scale: "Scale | None", out: Path, stored: Path) -> None:
    """Show the user's runs, or the stored ones; no file is written."""
    from eunoe_papers.results import collect
    from eunoe_papers.store import find_in_folders, find_stored

    shown = False
    for size in (scale,) if scale else experiment.scales:
        own = find_in_folders(experiment, size, out)
        if runs := own or find_stored(experiment, size, stored):
            _show_results(collect(experiment, size, runs))
            figure = stored / "figures" / f"{experiment.name}-{size}.svg"
            drawn = f", figure in {figure}" * figure.exists()
            print(f"from your runs in {out}" if own else f"from {stored}{drawn}")
            shown = True
    if not shown:
        at = f" at {scale} scale" if scale else ""
        raise InputError(f"no runs of {experiment.name}{at} in {out} or {stored}{_no_folder(stored)}")


def _no_folder(stored: Path) -> str:
    """Explain where stored results are if their folder is missing."""
    return f" ({stored} not found: stored results are in a clone of Eunoe)" * (not stored.exists())


def _show_all(listed: "list[Experiment]", out: Path, results: Path) -> None:
    from eunoe.cli.tables import show
    from eunoe_papers.experiment import SCALES, data_sets
    from eunoe_papers.reproduce import find_missing, sum_costs

    def cell(experiment: "Experiment", scale: "Scale") -> str:
        if scale not in experiment.scales:
            return ""
        _, seconds = sum_costs(experiment.plan(scale))
        return f"{duration(seconds)} {_ran(experiment, scale, out, results)}".strip()

    rows, absent = [], dict[str, Path]()
    for experiment in listed:
        full = experiment.plan("full")
        absent |= find_missing(full)
        data = data_sets(full)
        named = ", ".join(data) if len(data) <= 3 else f"{len(data)} data sets"
        rows.append([experiment.name, named, *(cell(experiment, scale) for scale in SCALES)])
    show(["name", "data", *SCALES], rows, "Tables and figures of the papers")
    print("by scale: estimated training time on one core; existing and planned runs")
    if absent:
        print(f"missing data sets: {', '.join(sorted(absent))}")
    if not results.exists():
        print(f"stored runs are not counted{_no_folder(results)}")
    print("eunoe papers NAME shows one with its numbers, eunoe reproduce NAME runs it")


def _show_one(experiment: "Experiment", out: Path, results: Path) -> None:
    from eunoe_papers.loader import disagreements, find_experiment
    from eunoe_papers.loader import papers as read_papers
    from eunoe_papers.reproduce import sum_costs

    source = experiment.source
    paper = read_papers()[source.paper]
    print(f"{experiment.name}: {paper.title}, {source.where}")
    print(f"setting: {source.setting}")
    for about, lines in {"base setting": paper.settings, "left open, chosen here": paper.chosen}.items():
        print(f"{about}:")
        for line in lines:
            print(f"  - {line}")
    if experiment.differs:
        print(f"here: {experiment.differs}")
    print(source.sentence)
    print(f"measured: {experiment.reported}")
    for claim in experiment.claims:
        print(f"claim tested: {claim.sentence}")
    for scale in experiment.scales:
        planned = experiment.plan(scale)
        samples, seconds = sum_costs(planned)
        print(f"{scale}: {len(planned)} runs, {samples:.1e} samples, about {duration(seconds)} of one core")
        if ran := _ran(experiment, scale, out, results):
            print(
                f"  run so far: {ran}; eunoe reproduce {experiment.name} --scale {scale} --report shows them"
            )
    for note in disagreements(experiment.name):
        print(f"note ({note.about}): {note.says}. Used here: {note.resolved}.")
    if source.cells:
        _show_cells(source)
    if source.orientation:
        other = find_experiment(source.orientation).source
        _show_cells(other, f"For orientation only: {other.paper}, {other.where}, {other.setting}")


def _show_cells(source: "Source", title: str | None = None) -> None:
    from eunoe.cli.tables import show

    doubtful = dict.fromkeys(source.doubtful, " (doubtful)")
    rows = [[label, cell.text + doubtful.get(label, "")] for label, cell in source.cells.items()]
    show([source.reports, "paper"], rows, title)


def _show_results(results: "Results") -> None:
    from eunoe.analysis.tables import Table
    from eunoe.cli.tables import show
    from eunoe_papers.experiment import MARKS
    from eunoe_papers.loader import disagreements
    from eunoe_papers.reproduce import describe_setting

    experiment, source = results.experiment, results.experiment.source
    full = results.scale == "full"
    mark = f"{MARKS[results.scale]}: " * (not full)
    # The table's own measure, such as a mean over the last hundred rounds, applies at full scale only.
    measured = experiment.reported if full else experiment.measured
    title = f"{mark}{experiment.name} ({source.paper}, {source.where}), {measured}"
    ours = "ours" if full else f"ours ({results.scale})"
    own = [row for row in results.rows if not row.stand_in]
    rows = [[r.label, r.paper, r.ours, r.difference, r.count, r.length] for r in own]
    if rows:
        table = Table(["run", "paper", ours, "difference", "seeds", "rounds"], rows).drop_empty()
        show(table.headings, table.rows, title)
    stand_in = [[r.label, r.stand_in, r.ours, r.count, r.length] for r in results.rows if r.stand_in]
    if stand_in:
        title = f"STAND-IN DATA, not comparable with the paper: {title}"
        show(["run", "data", ours, "seeds", "rounds"], stand_in, title)
    if any("NC" in (row.paper, row.ours) for row in results.rows):
        print("NC: did not converge")
    if experiment.differs:
        print(f"here: {experiment.differs}.")
    if not full:
        print(f"{results.scale} scale: {describe_setting(experiment.plan(results.scale, [0]))}.")
    for short in results.shortened:
        print(f"only {short}")
    for verdict in results.verdicts:
        print(f"claim: {verdict.sentence}\n  {verdict.text()}")
    for note in disagreements(experiment.name):
        print(f"note ({note.about}): used here: {note.resolved}.")


def _ran(experiment: "Experiment", scale: "Scale", out: Path, results: Path) -> str:
    """Format how many of the planned runs exist; empty if none does."""
    from eunoe_papers.store import count_runs

    begun, planned = count_runs(experiment, scale, out, results), len(experiment.plan(scale))
    if begun >= planned:
        return "all"
    return f"{begun}/{planned}" if begun else ""


def duration(seconds: float) -> str:
    """Format a duration in a suitable unit."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:,.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
