"""`eunoe papers` and `eunoe reproduce`: list and reproduce the papers' tables and figures."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunoe.cli.sweep import read_seeds
from eunoe.errors import InputError

if TYPE_CHECKING:
    from eunoe.papers.exhibit import Exhibit, PlannedRun, Scale
    from eunoe.papers.library import Source
    from eunoe.papers.reproduce import Limits
    from eunoe.papers.results import Results

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
    from eunoe.papers import all_exhibits, find_exhibit

    if name is not None:
        _show_one(find_exhibit(name), out, results)
    else:
        _show_all(list(all_exhibits().values()), out, results)


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
        str, typer.Option(help="Only the line of this name, or lines that contain these words.")
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
    from eunoe.papers import find_exhibit
    from eunoe.papers.reproduce import Limits

    exhibit, chosen = find_exhibit(name), _scale(scale)
    if report:
        _report(exhibit, chosen, out, results)
        return
    chosen = chosen or "small"
    planned = exhibit.plan(chosen, None if seeds is None else read_seeds(seeds), stand_in, only, out)
    if print_config:
        _print_config(planned)
    else:
        _run(exhibit, chosen, planned, Limits(rounds, hours), jobs, yes, out)


def _run(
    exhibit: "Exhibit",
    scale: "Scale",
    planned: "Sequence[PlannedRun]",
    limits: "Limits",
    jobs: int,
    yes: bool,
    out: Path,
) -> None:
    from eunoe.papers import reproduce as running
    from eunoe.papers.drawing import draw
    from eunoe.report.progress import Bars

    seconds = limits.seconds(running.to_run(planned, limits))
    if seconds > LONG and not yes:
        _confirm(exhibit.name, scale, seconds)
    with Bars() as bars:
        running.reproduce(exhibit, planned, limits, jobs, bars.follow)
    results, found = running.results_in_folders(exhibit, scale, out)
    _show_results(results)
    for data, path in running.missing(planned).items():
        print(f"not run: what needs {data} ({path} is not there); --stand-in runs it on other data")
    folder = out / exhibit.name / scale
    figure = draw(results, found, folder / f"{exhibit.name}.svg")
    print(
        f"runs in {out / exhibit.owner / scale}, summary in {folder}" + f", figure in {figure}" * bool(figure)
    )


def _confirm(name: str, scale: str, seconds: float) -> None:
    cost = f"{name} at {scale} scale takes about {duration(seconds)} of one core"
    if not sys.stdin.isatty():
        raise InputError(f"{cost}; add --yes to run it, or --only, --rounds or --hours to run less")
    typer.confirm(f"{cost}. Run it?", abort=True)


def _report(exhibit: "Exhibit", scale: "Scale | None", out: Path, stored: Path) -> None:
    """Show the user's runs, or the stored ones; no file is written."""
    from eunoe.papers.found import in_folders, in_store
    from eunoe.papers.results import collect

    shown = False
    for one in (scale,) if scale else exhibit.scales:
        own = in_folders(exhibit, one, out)
        if found := own or in_store(exhibit, one, stored):
            _show_results(collect(exhibit, one, found))
            figure = stored / "figures" / f"{exhibit.name}-{one}.svg"
            print(f"from your runs in {out}" if own else f"from {stored}, figure in {figure}")
            shown = True
    if not shown:
        at = f" at {scale} scale" if scale else ""
        where = f"in {out} or is stored in {stored}{_no_folder(stored)}"
        raise InputError(f"nothing of {exhibit.name} has been run{at} {where}")


def _no_folder(stored: Path) -> str:
    """What to say where the folder of stored results is not there."""
    return f" ({stored} is not here: stored results are in a clone of Eunoe)" * (not stored.exists())


def _print_config(planned: "Sequence[PlannedRun]") -> None:
    from eunoe.config.toml import to_toml

    lines = list(dict.fromkeys(run.line for run in planned))
    if len(lines) > 1:
        raise InputError(
            f"--print-config prints one config, and these are {len(lines)}: add --only with one "
            f"of {', '.join(map(repr, lines))}"
        )
    print(f"# {lines[0]}\n{to_toml(planned[0].values)}")


def _show_all(listed: "list[Exhibit]", out: Path, results: Path) -> None:
    from eunoe.cli.tables import show
    from eunoe.papers.cost import total
    from eunoe.papers.exhibit import SCALES, data_sets
    from eunoe.papers.reproduce import missing

    def cell(exhibit: "Exhibit", scale: "Scale") -> str:
        if scale not in exhibit.scales:
            return ""
        return f"{duration(total(exhibit.plan(scale))[1])} {_ran(exhibit, scale, out, results)}".strip()

    rows, absent = [], dict[str, Path]()
    for exhibit in listed:
        full = exhibit.plan("full")
        absent |= missing(full)
        data = data_sets(full)
        named = ", ".join(data) if len(data) <= 3 else f"{len(data)} data sets"
        rows.append([exhibit.name, named, *(cell(exhibit, scale) for scale in SCALES)])
    show(["name", "data", *SCALES], rows, "Tables and figures of the papers")
    print("by scale: estimated training time on one core, and runs that exist of how many")
    if absent:
        print(f"data that are not here: {', '.join(sorted(absent))}")
    if not results.exists():
        print(f"stored runs are not counted{_no_folder(results)}")
    print("eunoe papers NAME shows one with its numbers, eunoe reproduce NAME runs it")


def _show_one(exhibit: "Exhibit", out: Path, results: Path) -> None:
    from eunoe.papers.cost import total
    from eunoe.papers.library import library

    source = exhibit.source
    paper = library().papers[source.paper]
    print(f"{exhibit.name}: {paper.title}, {source.where}")
    print(f"setting: {source.setting}")
    for about, lines in {"base setting": paper.settings, "left open, chosen here": paper.chosen}.items():
        print(f"{about}:")
        for line in lines:
            print(f"  - {line}")
    if exhibit.differs:
        print(f"here: {exhibit.differs}")
    print(source.sentence)
    print(f"measured: {exhibit.measured}")
    for claim in exhibit.claims:
        print(f"claim tested: {claim.sentence}")
    for scale in exhibit.scales:
        planned = exhibit.plan(scale)
        samples, seconds = total(planned)
        print(f"{scale}: {len(planned)} runs, {samples:.1e} samples, about {duration(seconds)} of one core")
        if ran := _ran(exhibit, scale, out, results):
            print(f"  run so far: {ran}; eunoe reproduce {exhibit.name} --scale {scale} --report shows them")
    for note in library().notes(exhibit.source_name or exhibit.name):
        print(f"note ({note.about}): {note.says}. Used here: {note.resolved}.")
    if source.cells:
        _show_cells(source)
    if source.orientation:
        other = library().source(source.orientation)
        _show_cells(other, f"For orientation only: {other.paper}, {other.where}, {other.setting}")


def _show_cells(source: "Source", title: str | None = None) -> None:
    from eunoe.cli.tables import show

    doubtful = dict.fromkeys(source.doubtful, " (doubtful)")
    rows = [[label, cell.text + doubtful.get(label, "")] for label, cell in source.cells.items()]
    show([source.measure, "paper"], rows, title)


def _show_results(results: "Results") -> None:
    from eunoe.analysis.tables import Table
    from eunoe.cli.tables import show
    from eunoe.papers.exhibit import MARKS
    from eunoe.papers.library import library
    from eunoe.papers.setting import in_words

    exhibit, source = results.exhibit, results.exhibit.source
    full = results.scale == "full"
    mark = f"{MARKS[results.scale]}: " * (not full)
    # The table's own measure, such as a mean over the last hundred rounds, applies at full scale only.
    measured = exhibit.measured if full else exhibit.read_off
    title = f"{mark}{exhibit.name} ({source.paper}, {source.where}), {measured}"
    ours = "ours" if full else f"ours ({results.scale})"
    rows = [
        [row.label, row.paper, row.ours, row.difference, row.count, row.length]
        for row in results.rows
        if not row.stand_in
    ]
    if rows:
        table = Table(["run", "paper", ours, "difference", "seeds", "rounds"], rows).filled()
        show(table.headings, table.rows, title)
    stood = [
        [row.label, row.stand_in, row.ours, row.count, row.length] for row in results.rows if row.stand_in
    ]
    if stood:
        show(
            ["run", "data", ours, "seeds", "rounds"],
            stood,
            f"STAND-IN DATA, not comparable with the paper: {title}",
        )
    if any("NC" in (row.paper, row.ours) for row in results.rows):
        print("NC: did not converge")
    if exhibit.differs:
        print(f"here: {exhibit.differs}.")
    if not full:
        print(f"{results.scale} scale: {in_words(exhibit.plan(results.scale, [0]))}.")
    for short in results.shortened:
        print(f"only {short}")
    for verdict in results.verdicts:
        print(f"claim: {verdict.claim.sentence}\n  {verdict.text()}")
    for note in library().notes(exhibit.source_name or exhibit.name):
        print(f"note ({note.about}): used here: {note.resolved}.")


def _ran(exhibit: "Exhibit", scale: "Scale", out: Path, results: Path) -> str:
    """The number of existing runs, of how many; empty if there are none."""
    from eunoe.papers.found import count

    begun, planned = count(exhibit, scale, out, results), len(exhibit.plan(scale))
    if begun >= planned:
        return "all"
    return f"{begun}/{planned}" if begun else ""


def duration(seconds: float) -> str:
    """Format a duration in a suitable unit."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:,.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _scale(text: str | None) -> "Scale | None":
    from eunoe.papers.exhibit import SCALES

    for scale in SCALES:
        if text == scale:
            return scale
    if text is None:
        return None
    raise InputError(f"--scale is one of {', '.join(SCALES)}, not {text!r}")
