"""What the runs of a recipe gave, beside the paper's numbers: rows, verdicts, and where runs are kept."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eunoe.recipes.base import Recipe, Run, Scale
from eunoe.recipes.claims import Verdict, judge
from eunoe.recipes.measures import Measure, Outcome


@dataclass(frozen=True)
class Row:
    """One cell: the paper's text and number, ours over the seeds, and the difference of the two."""

    label: str
    paper: str
    ours: str
    difference: str
    seeds: int
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
    name = re.sub(r"[^a-z0-9.=+]+", "-", run.label.lower())
    stand_in = (
        f"-{run.config['data'].get('of', run.config['data']['name'])}-for-{run.stand_in_for}"
        if run.stand_in_for
        else ""
    )
    return out / (recipe.shares or recipe.name) / scale / f"{name}{stand_in}-seed{run.seed}"


def collect(recipe: Recipe, scale: Scale, outcomes: Sequence[tuple[Run, Outcome]]) -> Results:
    """Rows and verdicts from the outcomes of finished runs."""
    found: dict[str, dict[int, float]] = {}
    stand_ins: dict[str, str] = {}
    lengths: dict[str, int] = {}
    for run, outcome in outcomes:
        for column, measure in recipe.measures.items():
            label = f"{run.label} {column}".strip()
            found.setdefault(label, {})[run.seed] = measure.read(outcome)
            lengths[label] = max(lengths.get(label, 0), int(outcome.config["rounds"]))
            if run.stand_in_for:
                stand_ins[label] = (
                    f"{run.config['data'].get('of', run.config['data']['name'])} for {run.stand_in_for}"
                )
    rows = [
        _row(recipe, label, list(values.values()), stand_ins.get(label, ""))
        for label, values in found.items()
    ]
    if recipe.derive:
        means = {
            label: sum(values.values()) / len(values)
            for label, values in found.items()
            if label not in stand_ins
        }
        rows += [_derived(recipe, label, text) for label, text in recipe.derive(means).items()]
    seeds = sorted({seed for values in found.values() for seed in values})
    # A round that was not reached counts as the one after the last, which makes differences no larger.
    by_seed = [
        {label: min(values[seed], lengths[label] + 1) for label, values in found.items() if seed in values}
        if any(measure.unit == "rounds" for measure in recipe.measures.values())
        else {label: values[seed] for label, values in found.items() if seed in values}
        for seed in seeds
    ]
    return Results(recipe, scale, tuple(rows), tuple(judge(claim, by_seed) for claim in recipe.claims))


def _row(recipe: Recipe, label: str, values: list[float], stand_in: str) -> Row:
    measure = _measure(recipe, label)
    mean = sum(values) / len(values)
    spread = (
        math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
        if len(values) > 1
        else 0.0
    )
    ours = measure.text(mean)
    if len(values) > 1 and math.isfinite(mean):
        ours += f" ± {abs(spread):.1f}" if measure.unit in ("rounds", "points") else f" ± {spread:.3f}"
    if stand_in:
        return Row(label, "", ours, "", len(values), stand_in)
    cell = recipe.target(label)
    difference = ""
    if cell is not None and cell.value is not None and math.isfinite(mean):
        gap = mean - cell.value
        difference = (
            f"{gap:+.0f}"
            if measure.unit == "rounds"
            else f"{gap:+.1f}"
            if measure.unit == "points"
            else f"{gap:+.3f}"
        )
    return Row(label, cell.text if cell else "", ours, difference, len(values))


def _measure(recipe: Recipe, label: str) -> Measure:
    column = next((column for column in recipe.measures if column and label.endswith(f" {column}")), "")
    return recipe.measures[column]


def _derived(recipe: Recipe, label: str, text: str) -> Row:
    cell = recipe.target(label)
    return Row(label, cell.text if cell else "", text, "", 0)


def write_summary(folder: Path, results: Results, extra: Mapping[str, Any]) -> Path:
    """Keep the results beside the runs."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"summary-{results.recipe.name}.json"
    path.write_text(json.dumps({**results.as_json(), **extra}, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path
