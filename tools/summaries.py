"""What is stored in results/: the summaries of its runs and the notes on them.

`add` stores the runs that `eunoe reproduce` left in a folder, `refresh` sums up and draws all that is stored.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from eunoe.papers import all_exhibits, find_exhibit
from eunoe.papers.drawing import draw
from eunoe.papers.exhibit import SCALES, Scale
from eunoe.papers.found import in_store, store_runs
from eunoe.papers.results import Row, collect

OUT = Path(__file__).parent.parent / "results"


class Notes(BaseModel):
    """results/notes.toml: which claims the README shows, and notes by scale."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    readme: list[str] = []
    full: dict[str, str] = {}
    medium: dict[str, str] = {}
    small: dict[str, str] = {}

    def of(self, exhibit: str, scale: str) -> str:
        """The note on an exhibit's results, empty where nothing was written."""
        return {"full": self.full, "medium": self.medium, "small": self.small}[scale].get(exhibit, "")


def read_notes(out: Path = OUT) -> Notes:
    """The notes in a folder of results."""
    path = out / "notes.toml"
    return Notes.model_validate(tomllib.loads(path.read_text("utf-8")) if path.exists() else {})


class Published(BaseModel):
    """The summary of an exhibit's runs at one scale."""

    exhibit: str
    source: str
    scale: Scale
    shortened: list[str]
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


def method_rows(name: str, out: Path = OUT) -> list[list[str]]:
    """What runs with a method gave, beside FedAvg's of the same exhibits; at small scale if at no other."""
    for scale in SCALES:
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
    planned = find_exhibit(shown.exhibit).plan(shown.scale, [0])
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
    """Sum up and draw all stored runs again; figures of runs that are no longer stored go."""
    summaries: dict[str, dict[str, Any]] = {}
    for figure in (out / "figures").glob("*.svg"):
        figure.unlink()
    for exhibit in all_exhibits().values():
        for scale in exhibit.scales:
            found = in_store(exhibit, scale, out)
            results = collect(exhibit, scale, found)
            if results.rows:
                summaries.setdefault(exhibit.name, {})[scale] = results.as_json()
                draw(results, found, out / "figures" / f"{exhibit.name}-{scale}.svg")
    text = json.dumps(summaries, indent=1, ensure_ascii=False)
    (out / "summary.json").write_text(text + "\n", "utf-8")
