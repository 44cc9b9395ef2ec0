"""The papers' numbers beside ours, as Markdown from results/: the README's claims and docs/results.md.

`make results` (python -m tools.published) sums up and draws every run in results/ again and rewrites both;
`python -m tools.published add FOLDER` first stores the runs that `eunoe reproduce` left in a folder. What is
said about a difference and which claims the README shows is in results/notes.toml.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from eunoe.papers import all_exhibits, find_exhibit
from eunoe.papers.drawing import draw
from eunoe.papers.exhibit import SCALES
from eunoe.papers.found import in_store, store_runs
from eunoe.papers.library import Paper, library
from eunoe.papers.results import Row, collect
from eunoe.records.tables import Table

ROOT = Path(__file__).parent.parent
OUT = ROOT / "results"
BEGIN, END = "<!-- made by `make results` from results/ -->", "<!-- end of what `make results` makes -->"
TITLES = {
    "full": "In the papers' settings",
    "small": "At small scale, which is not the papers' setting",
}
PAGE = f"""# Results

What the runs of the papers' tables and figures gave here, from the records in `results/`:
`runs/NAME.parquet` has the config, the metrics and the probes of every run by its line and seed,
`summary.json` the numbers below. A run that stopped early is shown with the round that it reached, of
how many. `eunoe reproduce NAME --report` prints one of the tables.

{BEGIN}
{END}
"""


class Notes(BaseModel):
    """results/notes.toml: whose claims the README shows, and a note for exhibits at a scale."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    readme: list[str] = []
    full: dict[str, str] = {}
    small: dict[str, str] = {}

    def of(self, exhibit: str, scale: str) -> str:
        """The note on an exhibit's results, empty where nothing was written."""
        return (self.full if scale == "full" else self.small).get(exhibit, "")


def read_notes(out: Path = OUT) -> Notes:
    """The notes in a folder of results."""
    path = out / "notes.toml"
    return Notes.model_validate(tomllib.loads(path.read_text("utf-8")) if path.exists() else {})


class Published(BaseModel):
    """The summary of an exhibit's runs at one scale."""

    exhibit: str
    source: str
    scale: str
    stopped_early: list[str]
    rows: list[Row]
    claims: list[dict[str, Any]]

    @property
    def figure(self) -> str:
        """Its figure, below the folder of results."""
        return f"figures/{self.exhibit}-{self.scale}.svg"


def read_published(out: Path = OUT) -> list[Published]:
    """All summaries in a folder of results: full ones first, in the order of `eunoe papers`."""
    path = out / "summary.json"
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return [
        Published.model_validate(known[name][scale])
        for scale in SCALES
        for name in all_exhibits()
        if scale in known.get(name, {})
    ]


def readme_block(out: Path = OUT) -> str:
    """The claims that the README shows, each with its verdict over the seeds."""
    by_name = {f"{shown.scale}.{shown.exhibit}": shown for shown in read_published(out)}
    rows = [
        [f"`{shown.exhibit}`", claim["claim"], claim["verdict"], _seeds(claim), claim["estimate"]]
        for shown in (by_name[name] for name in read_notes(out).readme if name in by_name)
        for claim in shown.claims
        if claim["verdict"] != "not tested"
    ]
    if not rows:
        return "No run at the papers' scale is in `results/` yet."
    return Table(
        ["table or figure", "claim of the paper", "here", "seeds", "by how much (95%)"], rows
    ).markdown()


def _seeds(claim: dict[str, Any]) -> str:
    return str(len(claim["by_seed"]) + claim["diverged"])


def with_block(text: str, block: str) -> str:
    """A text with the part between the two marks replaced."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{rest.split(END)[1]}"


def results_block(out: Path = OUT) -> str:
    """All results, with figures that are linked from docs/."""
    published, notes = read_published(out), read_notes(out)
    lines = ["## The papers' settings", *[_settings(paper) for paper in library().papers.values()]]
    for scale, title in TITLES.items():
        if mine := [shown for shown in published if shown.scale == scale]:
            lines.append(f"## {title}")
            for shown in mine:
                lines += _section(shown, notes.of(shown.exhibit, scale), (out / shown.figure).exists())
    return "\n\n".join(lines)


def _settings(paper: Paper) -> str:
    lines = [*paper.settings, *[f"left open, chosen here: {choice}" for choice in paper.chosen]]
    return f"*{paper.title}*\n\n" + "\n".join(f"- {line}" for line in lines)


def _section(shown: Published, note: str, has_figure: bool) -> list[str]:
    exhibit = find_exhibit(shown.exhibit)
    source = exhibit.source
    small = " (small)" if shown.scale == "small" else ""
    lines = [
        f"### {shown.exhibit}{small}",
        f"*{library().papers[source.paper].title}*, {source.where}: {source.measure}. "
        f"Setting: {source.setting}. {source.sentence}.",
    ]
    lines += [f"Here: {exhibit.differs}."] * bool(exhibit.differs)
    lines += [f"Numbers are: {exhibit.measured}."] * (source.kind == "figure")
    lines += [f"- Claim: {claim['claim']}. **{claim['text']}**" for claim in shown.claims]
    rows = [row for row in shown.rows if not row.stand_in]
    if rows:
        headings = ["run", "paper", f"ours{small}", "difference", "seeds", "rounds"]
        lines.append(Table(headings, [_cells(row, row.paper) for row in rows]).markdown())
    if stood := [row for row in shown.rows if row.stand_in]:
        headings = ["run", "stand-in data", f"ours{small}", "", "seeds", "rounds"]
        lines += [
            "On other data than the paper's, not comparable with it:",
            Table(headings, [_cells(row, row.stand_in) for row in stood]).markdown(),
        ]
    lines.append(f"Runs: `{shown.scale}` in `results/runs/{exhibit.owner}.parquet`.")
    lines += [f"Stopped early {stopped}." for stopped in shown.stopped_early]
    if has_figure:
        lines.append(f"![{source.shows}](../results/{shown.figure})")
    if note:
        lines.append(note.strip())
    lines += [
        f"- The papers on {entry.about}: {entry.says}. Used here: {entry.resolved}."
        for entry in library().notes(exhibit.source_name or shown.exhibit)
    ]
    return lines


def _cells(row: Row, second: str) -> list[str]:
    return [row.label, second, row.ours, row.difference, row.count, row.length]


def method_rows(name: str, out: Path = OUT) -> list[list[str]]:
    """What runs with a method gave, beside FedAvg's of the same exhibits; at small scale if at no other."""
    for scale in TITLES:
        lines = []
        for shown in read_published(out):
            if shown.scale != scale:
                continue
            methods = _methods(shown)
            if name in methods.values():
                lines += [
                    [f"{shown.exhibit} ({scale})", row.label, row.paper, row.ours, row.length]
                    for row in shown.rows
                    if methods.get(row.line) in (name, "fedavg") and not row.stand_in
                ]
        if lines:
            return lines
    return []


def _methods(shown: Published) -> dict[str, str]:
    """The method of each line, of those where the server does no more than to average."""
    planned = find_exhibit(shown.exhibit).plan("full" if shown.scale == "full" else "small", [0])
    ran = {row.line for row in shown.rows}
    return {
        run.line: str(run.values["method"]["name"])
        for run in planned
        if run.line in ran and run.values.get("server_optimizer", {}).get("name", "sgd") == "sgd"
    }


def add(folder: Path, out: Path = OUT) -> int:
    """Store the runs below a folder, as `eunoe reproduce` leaves them there; give how many."""
    return len({(e.owner, key) for e in all_exhibits().values() for key in store_runs(e, folder, out)})


def refresh(out: Path = OUT) -> None:
    """Sum up and draw all stored runs again."""
    summaries: dict[str, dict[str, Any]] = {}
    for exhibit in all_exhibits().values():
        for scale in SCALES:
            if found := in_store(exhibit, scale, out):
                results = collect(exhibit, scale, found)
                summaries.setdefault(exhibit.name, {})[scale] = results.as_json()
                draw(results, found, out / "figures" / f"{exhibit.name}-{scale}.svg")
    text = json.dumps(summaries, indent=1, ensure_ascii=False)
    (out / "summary.json").write_text(text + "\n", "utf-8")


def main() -> None:
    if sys.argv[1:2] == ["add"]:
        print(f"stored {add(Path(sys.argv[2]))}")
    refresh()
    readme, page = ROOT / "README.md", ROOT / "docs" / "results.md"
    readme.write_text(with_block(readme.read_text("utf-8"), readme_block()), "utf-8")
    page.write_text(with_block(PAGE, results_block()), "utf-8")


if __name__ == "__main__":
    main()
