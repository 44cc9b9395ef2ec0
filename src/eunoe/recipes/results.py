"""What the runs of a recipe gave, beside the paper's numbers: rows, verdicts, and where runs are kept."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eunoe.recipes.base import Recipe, Run, Scale, data_sets
from eunoe.recipes.claims import Verdict, judge
from eunoe.recipes.measures import Measure, Outcome


@dataclass(frozen=True)
class Row:
    """One cell: the paper's text, ours over the seeds, the difference, and the fewest rounds of a run."""

    label: str
    paper: str
    ours: str
    difference: str = ""
    seeds: int = 0
    rounds: int = 0
    stand_in: str = ""


@dataclass(frozen=True)
class Results:
    """All cells of a recipe and what they say about its claims."""

    recipe: Recipe
    scale: Scale
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]

    def as_json(self) -> dict[str, Any]:
        """The results as plain values, for a file."""
        return {
            "recipe": self.recipe.name,
            "source": f"{self.recipe.exhibit.paper}, {self.recipe.exhibit.where}",
            "scale": self.scale,
            "rows": [asdict(row) for row in self.rows],
            "claims": [
                {
                    "claim": verdict.claim.sentence,
                    "seen": verdict.seen,
                    "by_seed": verdict.by_seed,
                    "text": verdict.text(),
                }
                for verdict in self.verdicts
            ],
        }


def folder_of(out: Path, recipe: Recipe, scale: Scale, run: Run) -> Path:
    """Where a run is kept: recipes that share runs share the folder."""
    name = re.sub(r"[^a-z0-9.=+]+", "-", f"{run.label} {stand_in(run)}".lower()).strip("-")
    return out / (recipe.shares or recipe.name) / scale / name / f"seed-{run.seed}"


def stand_in(run: Run) -> str:
    """What stands in for what in a run, if anything does."""
    return f"{data_sets([run])[0]} for {run.stand_in_for}" if run.stand_in_for else ""


def collect(recipe: Recipe, scale: Scale, outcomes: Sequence[tuple[Run, Outcome]]) -> Results:
    """Rows and verdicts from what the runs recorded."""
    cells: dict[str, list[tuple[Run, Outcome, Measure]]] = {}
    for run, outcome in outcomes:
        for column, measure in recipe.measures.items():
            cells.setdefault(f"{run.label} {column}".strip(), []).append((run, outcome, measure))
    values = {label: [m.read(o) for _, o, m in entries] for label, entries in cells.items()}
    rows = [_row(recipe, label, values[label], entries) for label, entries in cells.items()]
    if recipe.derive:
        means = {
            label: sum(values[label]) / len(values[label])
            for label in cells
            if not stand_in(cells[label][0][0])
        }
        rows += [Row(label, _paper(recipe, label), text) for label, text in recipe.derive(means).items()]
    by_seed: dict[int, dict[str, float]] = {}
    for label, entries in cells.items():
        for (run, outcome, _), value in zip(entries, values[label], strict=True):
            # A round that was not reached counts as the one after the last: differences are then no larger.
            by_seed.setdefault(run.seed, {})[label] = min(value, outcome.config["rounds"] + 1)
    verdicts = tuple(judge(claim, list(by_seed.values())) for claim in recipe.claims)
    return Results(recipe, scale, tuple(rows), verdicts)


def _row(recipe: Recipe, label: str, values: list[float], entries: list[tuple[Run, Outcome, Measure]]) -> Row:
    run, _, measure = entries[0]
    finite = [value for value in values if math.isfinite(value)]
    failed = sum(outcome.failed for _, outcome, _ in entries)
    ours = measure.mean_text(finite) if finite else "NC" if failed else measure.text(values[0])
    if finite and len(finite) < len(values):
        ours += f" ({len(values) - len(finite)} of {len(values)} {'NC' if failed else 'not reached'})"
    rounds = min(max(outcome.of("accuracy"), default=0) for _, outcome, _ in entries)
    if stood := stand_in(run):
        return Row(label, "", ours, "", len(values), rounds, stood)
    target = recipe.target(label)
    difference = ""
    if target is not None and target.value is not None and len(finite) == len(values):
        difference = measure.signed(sum(finite) / len(finite) - target.value)
    return Row(label, _paper(recipe, label), ours, difference, len(values), rounds)


def _paper(recipe: Recipe, label: str) -> str:
    """The paper's cell as it is shown."""
    if label in recipe.exhibit.doubtful:
        return f"{recipe.exhibit.cells[label].text} (doubtful)"
    target = recipe.target(label)
    return target.text if target else ""


def write_summary(folder: Path, results: Results, extra: Mapping[str, Any]) -> Path:
    """Keep the results beside the runs."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"summary-{results.recipe.name}.json"
    path.write_text(json.dumps({**results.as_json(), **extra}, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path
