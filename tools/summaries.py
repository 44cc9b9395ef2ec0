"""What is stored in results/: the summaries of its runs and the notes on them.

`add` stores the runs that `eunoe reproduce` left in a folder, `refresh` sums up all that is stored and draws
its figures.
"""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from eunoe_papers.drawing import draw
from eunoe_papers.experiment import SCALES, Scale
from eunoe_papers.loader import experiments, find_experiment
from eunoe_papers.results import Row, collect
from eunoe_papers.store import find_stored, store_runs

OUT = Path(__file__).parent.parent / "results"
# The figure of all claims.
CLAIMS = "figures/claims.svg"


class Notes(BaseModel):
    """results/notes.toml: notes by scale and experiment, and a conclusion for each paper.

    A conclusion says what holds, what does not, and what was not tested.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    conclusions: dict[str, tuple[str, str, str]] = {}
    full: dict[str, str] = {}
    medium: dict[str, str] = {}
    small: dict[str, str] = {}

    def of(self, experiment: str, scale: str) -> str:
        """Return the note on an experiment's results, empty where nothing was written."""
        return {"full": self.full, "medium": self.medium, "small": self.small}[scale].get(experiment, "")


def read_notes(out: Path = OUT) -> Notes:
    """Read the notes in a folder of results."""
    path = out / "notes.toml"
    return Notes.model_validate(tomllib.loads(path.read_text("utf-8")) if path.exists() else {})


class Published(BaseModel):
    """The summary of an experiment's runs at one scale."""

    experiment: str
    source: str
    scale: Scale
    shortened: list[str]
    rows: list[Row]
    claims: list[dict[str, Any]]

    @property
    def figure(self) -> str:
        """Its figure, below the folder of results."""
        return f"figures/{self.experiment}-{self.scale}.svg"


def read_published(out: Path = OUT) -> list[Published]:
    """Read all summaries in a folder of results: full ones first, in the order of `eunoe papers`."""
    path = out / "summary.json"
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return [
        Published.model_validate(known[name][scale])
        for scale in SCALES
        for name in experiments()
        if scale in known.get(name, {})
    ]


def list_figures(out: Path = OUT) -> Iterator[str]:
    """List the figures in a folder of results."""
    for figure in (CLAIMS, *(shown.figure for shown in read_published(out))):
        if (out / figure).exists():
            yield figure


def method_rows(name: str, out: Path = OUT) -> list[list[str]]:
    """Return what runs with a method gave, beside FedAvg's of the same experiments, at the largest scale."""
    for scale in SCALES:
        rows = []
        for shown in read_published(out):
            if shown.scale != scale:
                continue
            methods = _methods(shown)
            if name in methods.values():
                rows += [
                    [f"{shown.experiment} ({scale})", row.label, row.paper, row.ours, row.length]
                    for row in shown.rows
                    if methods.get(row.line) in (name, "fedavg") and not row.stand_in
                ]
        if rows:
            return rows
    return []


def _methods(shown: Published) -> dict[str, str]:
    """Return the method of each arm whose server does no more than average."""
    planned = find_experiment(shown.experiment).plan(shown.scale, [0])
    ran = {row.line for row in shown.rows}
    return {
        run.line: str(run.values["method"]["name"])
        for run in planned
        if run.line in ran and run.values.get("server_optimizer", {}).get("name", "sgd") == "sgd"
    }


def add(folder: Path, out: Path = OUT) -> int:
    """Store the runs below a folder, as `eunoe reproduce` leaves them there; return how many."""
    every = experiments().values()
    return len({(e.owner, key) for e in every for key in store_runs(e, folder, out)})


def refresh(out: Path = OUT) -> None:
    """Sum up all stored runs again, and draw those at full scale; figures that are no longer made go."""
    summaries: dict[str, dict[str, Any]] = {}
    for figure in (out / "figures").glob("*.svg"):
        figure.unlink()
    for experiment in experiments().values():
        for scale in experiment.scales:
            runs = find_stored(experiment, scale, out)
            results = collect(experiment, scale, runs)
            if results.rows:
                summaries.setdefault(experiment.name, {})[scale] = results.as_json()
                if scale == "full":
                    draw(results, runs, out / "figures" / f"{experiment.name}-{scale}.svg")
    text = json.dumps(summaries, indent=1, ensure_ascii=False)
    (out / "summary.json").write_text(text + "\n", "utf-8")
