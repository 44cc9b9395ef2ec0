"""The papers' numbers beside ours, as Markdown from results/: the README's table and the site's results page.

`make results` (python docs/published.py) sums up and draws every run in results/ again and rewrites the
README's table. What is said about a difference and which rows the README shows is in results/notes.toml.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from eunoe.papers import find_recipe, recipes
from eunoe.papers.papers import Paper, library
from eunoe.papers.reproduce import Choice, report
from eunoe.papers.results import Row
from eunoe.records.comparison import as_markdown

ROOT = Path(__file__).parent.parent
OUT = ROOT / "results"
BEGIN, END = "<!-- made by `make results` from results/ -->", "<!-- end of what `make results` makes -->"
SCALES = {
    "full": "In the papers' settings",
    "small": "At small scale, which is not the papers' setting",
}


class Note(BaseModel):
    """What is said about the results of one recipe at one scale."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    headline: tuple[str, ...] = ()
    brief: str = ""
    note: str = ""


class Notes(BaseModel):
    """results/notes.toml: which figures the README shows, and a note for each recipe and scale."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    figures: list[str] = []
    full: dict[str, Note] = {}
    small: dict[str, Note] = {}

    def of(self, recipe: str, scale: str) -> Note:
        """The note on a recipe's results, empty where nothing was written."""
        return (self.full if scale == "full" else self.small).get(recipe, Note())


def read_notes(out: Path = OUT) -> Notes:
    """The notes in a folder of results."""
    path = out / "notes.toml"
    return Notes.model_validate(tomllib.loads(path.read_text("utf-8")) if path.exists() else {})


class Published(BaseModel):
    """The summary of a recipe's runs at one scale, as `eunoe reproduce` wrote it."""

    recipe: str
    source: str
    scale: str
    stopped_early: list[str]
    rows: list[Row]
    claims: list[dict[str, Any]]

    @property
    def folder(self) -> str:
        """Where its files are, below the folder of results."""
        return f"{self.recipe}/{self.scale}"

    @property
    def summary(self) -> str:
        return f"{self.folder}/summary-{self.recipe}.json"

    @property
    def figure(self) -> str:
        return f"{self.folder}/{self.recipe}.svg"


def read_published(out: Path = OUT) -> list[Published]:
    """All summaries in a folder of results: full ones first, in the order of `eunoe papers`."""
    found = []
    for scale in SCALES:
        for name in recipes():
            path = out / name / scale / f"summary-{name}.json"
            if path.exists():
                found.append(Published.model_validate(json.loads(path.read_text("utf-8"))))
    return found


def readme_block(out: Path = OUT) -> str:
    """The headline results at full scale, each with a link to the runs behind it, and figures."""
    notes, by_name = read_notes(out), {p.recipe: p for p in read_published(out) if p.scale == "full"}
    table, brief = [], []
    for name, note in notes.full.items():
        if name not in by_name:
            continue
        shown = by_name[name]
        rows = {row.label: row for row in shown.rows}
        source = f"[{shown.source}](results/{shown.summary}): {find_recipe(name).measured}"
        for label in note.headline:
            if (row := rows.get(label)) is not None:
                link = f"[{label}]({_folder(row)})"
                table.append(
                    [source, link, row.paper or "–", row.ours, row.difference, str(row.seeds), row.length]
                )
                source = ""
        if note.brief and not source:
            brief.append(f"- `{name}`: {' '.join(note.brief.split())}")
    if not table:
        return "No run at the papers' scale is in `results/` yet."
    lines = [as_markdown(["source", "run", "paper", "ours", "difference", "seeds", "rounds"], table)]
    for shown in [by_name[name] for name in notes.figures if name in by_name]:
        if (out / shown.figure).exists():
            lines.append(f"![{find_recipe(shown.recipe).exhibit.sentence}](results/{shown.figure})")
    return "\n\n".join([*lines, "\n".join(brief)] if brief else lines)


def with_block(readme: str, block: str) -> str:
    """The README with its table of results replaced."""
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{rest.split(END)[1]}"


def results_page(out: Path = OUT) -> str:
    """The site's page of all results; figures are beside it as results/NAME-SCALE.svg."""
    published, notes = read_published(out), read_notes(out)
    lines = [
        "# Results",
        "What the recipes of `eunoe papers` gave here, made from the files in `results/`. A run that stopped "
        "early is told with the round that it reached, of how many. `eunoe reproduce NAME --report` prints "
        "one of the tables.",
        "## The papers' settings",
        *[_settings(paper) for paper in library().papers.values()],
    ]
    for scale, title in SCALES.items():
        if mine := [shown for shown in published if shown.scale == scale]:
            lines.append(f"## {title}")
            for shown in mine:
                lines += _section(shown, notes.of(shown.recipe, scale), (out / shown.figure).exists())
    return "\n\n".join(lines) + "\n"


def _settings(paper: Paper) -> str:
    lines = [*paper.settings, *[f"left open, chosen here: {choice}" for choice in paper.chosen]]
    return f"*{paper.title}*\n\n" + "\n".join(f"- {line}" for line in lines)


def _section(shown: Published, note: Note, has_figure: bool) -> list[str]:
    recipe = find_recipe(shown.recipe)
    exhibit = recipe.exhibit
    small = " (small)" if shown.scale == "small" else ""
    lines = [
        f"### {shown.recipe}{small}",
        f"*{library().papers[exhibit.paper].title}*, {exhibit.where}: {exhibit.measure}. "
        f"Setting: {exhibit.context}. {exhibit.sentence}.",
    ]
    lines += [f"This recipe: {recipe.differs}."] * bool(recipe.differs)
    lines += [f"Numbers are: {recipe.measured}."] * (exhibit.kind == "figure")
    lines += [f"- Claim: {claim['claim']}. **{claim['text']}**" for claim in shown.claims]
    rows = [row for row in shown.rows if not row.stand_in]
    if rows:
        headings = ["run", "paper", f"ours{small}", "difference", "seeds", "rounds"]
        lines.append(as_markdown(headings, [_cells(row, row.paper) for row in rows]))
    if stood := [row for row in shown.rows if row.stand_in]:
        headings = ["run", "stand-in data", f"ours{small}", "", "seeds", "rounds"]
        lines += [
            "On other data than the paper's, not comparable with it:",
            as_markdown(headings, [_cells(row, row.stand_in) for row in stood]),
        ]
    folders = dict.fromkeys(f"`{_folder(row)}`" for row in shown.rows if row.folders)
    lines.append(f"Numbers: `results/{shown.summary}`. Runs: {', '.join(folders)}.")
    lines += [f"Stopped early {stopped}." for stopped in shown.stopped_early]
    if has_figure:
        lines.append(f"![{exhibit.shows}](results/{shown.recipe}-{shown.scale}.svg)")
    if note.note:
        lines.append(note.note.strip())
    contradictions = library().notes(recipe.exhibit_name or shown.recipe)
    lines += [
        f"- The papers on {entry.about}: {entry.says}. Used here: {entry.resolved}."
        for entry in contradictions
    ]
    return lines


def _cells(row: Row, second: str) -> list[str]:
    return [row.label, second, row.ours, row.difference, str(row.seeds or ""), row.length]


def _folder(row: Row) -> str:
    """The folder of all seeds behind a row."""
    return f"results/{Path(row.folders[0]).parent.as_posix()}"


def method_rows(name: str, out: Path = OUT) -> list[list[str]]:
    """What runs with a method gave, beside FedAvg's of the same recipes; at small scale if at no other."""
    for scale in SCALES:
        lines = []
        for shown in read_published(out):
            methods = {row.label: _method(out, row) for row in shown.rows}
            if shown.scale == scale and name in methods.values():
                lines += [
                    [f"{shown.recipe} ({scale})", row.label, row.paper, row.ours, row.length]
                    for row in shown.rows
                    if methods[row.label] in (name, "fedavg") and not row.stand_in
                ]
        if lines:
            return lines
    return []


def _method(out: Path, row: Row) -> str:
    """The method of the runs behind a row; nothing where it was computed from others."""
    if not row.folders:
        return ""
    config = tomllib.loads((out / row.folders[0] / "config.toml").read_text("utf-8"))
    step = config.get("server_optimizer", {}).get("name", "sgd")
    return str(config["method"]["name"]) if step == "sgd" else ""


def refresh(out: Path = OUT) -> None:
    """Sum up and draw all runs again."""
    from eunoe.papers.drawing import draw

    for recipe in recipes().values():
        for scale in ("full", "small"):
            choice = Choice(recipe, scale, out)
            if any((choice.folder(run) / "metrics.jsonl").exists() for run in choice.begun()):
                draw(choice, report(choice))
                print(f"{recipe.name} {scale}")


def main() -> None:
    refresh()
    readme = ROOT / "README.md"
    readme.write_text(with_block(readme.read_text("utf-8"), readme_block()), "utf-8")


if __name__ == "__main__":
    main()
