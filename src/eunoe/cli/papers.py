"""`eunoe papers` and `eunoe reproduce`: the papers' tables and figures, and running them again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunoe.cli.sweep import read_seeds

if TYPE_CHECKING:
    from eunoe.papers.base import Recipe, Scale
    from eunoe.papers.papers import Exhibit
    from eunoe.papers.reproduce import Choice
    from eunoe.papers.results import Results

OUT = Path("results")


def papers(
    name: Annotated[str | None, typer.Argument(help="A recipe, to see all about it.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = OUT,
) -> None:
    """List every table and figure of the papers: its setting, its cost, what has been run."""
    from eunoe.papers import find_recipe, recipes

    if name is not None:
        _show_one(find_recipe(name), out)
    else:
        _show_all(list(recipes().values()), out)


def reproduce(
    name: Annotated[str, typer.Argument(help="A table or figure, as `eunoe papers` lists it.")],
    scale: Annotated[
        str, typer.Option(help="full: the paper's setting; small: minutes on two cores.")
    ] = "full",
    seeds: Annotated[str | None, typer.Option(help="Seeds, separated by commas.")] = None,
    stand_in: Annotated[
        bool, typer.Option("--stand-in", help="Run on other data where the paper's are absent.")
    ] = False,
    only: Annotated[
        str, typer.Option(help="Run only lines that have these words, such as 'cifar100 fedavg'.")
    ] = "",
    jobs: Annotated[int, typer.Option(help="Runs at a time.", min=1)] = 2,
    rounds: Annotated[int | None, typer.Option(help="Rounds to do for now; more go on from there.")] = None,
    hours: Annotated[
        float | None, typer.Option(help="Hours after which a run stops; it goes on when started again.")
    ] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Run nothing; show, draw and sum up what has been run.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the runs.")] = OUT,
) -> None:
    """Run a table or figure again, skipping what is done; print the paper's numbers, ours, the difference."""
    from eunoe.papers import find_recipe
    from eunoe.papers import reproduce as running
    from eunoe.papers.drawing import draw
    from eunoe.runs.progress import Bars

    choice = running.Choice(
        find_recipe(name),
        _scale(scale),
        out,
        None if seeds is None else read_seeds(seeds),
        stand_in,
        only,
        rounds,
        hours,
    )
    if report:
        results = running.report(choice)
        _show_results(results)
        _say_where(choice, draw(choice, results))
        return
    with Bars() as bars:
        results, absent = running.reproduce(choice, jobs, bars.follow)
    _show_results(results)
    for data, path in absent.items():
        print(f"not run: what needs {data} ({path} is not there); --stand-in runs it on other data")
    for folder in running.cannot_go_on(choice):
        print(f"taken as it is: {folder}, whose checkpoint is gone; remove the folder to run it again")
    _say_where(choice, draw(choice, results))


def _say_where(choice: "Choice", figure: Path | None) -> None:
    folder = choice.out / choice.recipe.name / choice.scale
    print(f"runs and summary in {folder}" + (f", figure in {figure}" if figure else ""))


def _show_all(listed: "list[Recipe]", out: Path) -> None:
    from eunoe.cli.tables import show
    from eunoe.papers.base import data_sets
    from eunoe.papers.cost import total
    from eunoe.papers.reproduce import Choice, missing, progress

    rows = []
    for recipe in listed:
        full, small = recipe.runs("full"), recipe.runs("small")
        samples, seconds = total(full)
        absent = missing(full)
        data = ", ".join(f"{name} (absent)" if name in absent else name for name in data_sets(full))
        ran = [_ran(progress(Choice(recipe, scale, out))) for scale in ("full", "small")]
        exhibit = recipe.exhibit
        rows.append(
            [
                recipe.name,
                f"{exhibit.paper}, {exhibit.where}",
                exhibit.setting,
                data,
                f"{len(full)}",
                f"{samples:.1e}",
                duration(seconds),
                duration(total(small)[1]),
                *ran,
            ]
        )
    headings = [
        "name",
        "source",
        "setting",
        "data",
        "runs",
        "samples",
        "core time",
        "small",
        "full ran",
        "small ran",
    ]
    show(headings, rows, "Tables and figures of the papers")
    print("core time: training on one core, estimated; eunoe papers NAME shows one with its numbers")


def _show_one(recipe: "Recipe", out: Path) -> None:
    from eunoe.papers.cost import total
    from eunoe.papers.papers import library
    from eunoe.papers.reproduce import Choice, progress

    exhibit = recipe.exhibit
    paper = library().papers[exhibit.paper]
    print(f"{recipe.name}: {paper.title}, {exhibit.where}")
    print(f"setting: {exhibit.setting}")
    for about, lines in {"base setting": paper.settings, "left open, chosen here": paper.chosen}.items():
        print(f"{about}:")
        for line in lines:
            print(f"  - {line}")
    if recipe.differs:
        print(f"this recipe: {recipe.differs}")
    print(exhibit.sentence)
    print(f"measured: {recipe.measured}")
    for claim in recipe.claims:
        print(f"claim tested: {claim.sentence}")
    for scale in ("full", "small"):
        runs = recipe.runs(scale)
        samples, seconds = total(runs)
        print(f"{scale}: {len(runs)} runs, {samples:.1e} samples, about {duration(seconds)} of one core")
        if ran := _ran(progress(Choice(recipe, scale, out))):
            print(f"  run so far: {ran}; eunoe reproduce {recipe.name} --scale {scale} --report shows them")
    for note in library().notes(recipe.exhibit_name or recipe.name):
        print(f"note ({note.about}): {note.says}. Used here: {note.resolved}.")
    if exhibit.cells:
        _show_cells(exhibit)
    if exhibit.orientation:
        other = library().exhibit(exhibit.orientation)
        _show_cells(other, f"For orientation only: {other.paper}, {other.where}, {other.setting}")


def _show_cells(exhibit: "Exhibit", title: str | None = None) -> None:
    from eunoe.cli.tables import show

    doubtful = dict.fromkeys(exhibit.doubtful, " (doubtful)")
    rows = [[label, cell.text + doubtful.get(label, "")] for label, cell in exhibit.cells.items()]
    show([exhibit.measure, "paper"], rows, title)


def _show_results(results: "Results") -> None:
    from eunoe.cli.tables import show
    from eunoe.papers.papers import library

    recipe, exhibit = results.recipe, results.recipe.exhibit
    small = results.scale == "small"
    scale = "SMALL SCALE, not the paper's setting: " if small else ""
    # What a table says of the last hundred rounds holds at the paper's scale only.
    measured = recipe.read_off if small else recipe.measured
    title = f"{scale}{recipe.name} ({exhibit.paper}, {exhibit.where}), {measured}"
    ours = "ours (small)" if small else "ours"
    rows = [
        [row.label, row.paper, row.ours, row.difference, str(row.seeds or ""), row.length]
        for row in results.rows
        if not row.stand_in
    ]
    if rows:
        show(["run", "paper", ours, "difference", "seeds", "rounds"], rows, title)
    stood = [
        [row.label, row.stand_in, row.ours, str(row.seeds), row.length]
        for row in results.rows
        if row.stand_in
    ]
    if stood:
        show(
            ["run", "data", ours, "seeds", "rounds"],
            stood,
            f"STAND-IN DATA, not comparable with the paper: {title}",
        )
    for stopped in results.stopped:
        print(f"stopped early {stopped}")
    for verdict in results.verdicts:
        print(f"claim: {verdict.claim.sentence}\n  {verdict.text()}")
    for note in library().notes(recipe.exhibit_name or recipe.name):
        print(f"note ({note.about}): used here: {note.resolved}.")
    if recipe.differs:
        print(f"this recipe: {recipe.differs}.")


def _ran(state: dict[str, int]) -> str:
    if not state["begun"]:
        return ""
    part = state["begun"] - state["ended"]
    return f"{state['ended']} of {state['runs']}" + (f", {part} in part" if part else "")


def duration(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:,.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _scale(text: str) -> "Scale":
    from eunoe.errors import InputError

    if text not in ("full", "small"):
        raise InputError(f"--scale is full or small, not {text!r}")
    return text  # type: ignore[return-value]
