"""What the runs of a recipe gave, beside the paper's numbers: rows, verdicts, and where runs are kept."""

import json
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from eunoe.papers.base import Recipe, Run, Scale, data_sets
from eunoe.papers.claims import AtLeast, Claim, NotReached, Verdict, judge
from eunoe.papers.measures import Measure, Outcome


@dataclass(frozen=True)
class Row:
    """One cell: the paper's text, ours over the seeds, the difference, and the runs behind it.

    `line` is the line of the table or figure that the runs are of, `rounds` the fewest of a run, `planned`
    how many the recipe gives it, and `folders` are where the runs are kept, below the folder of all results.
    """

    label: str
    paper: str
    ours: str
    difference: str = ""
    seeds: int = 0
    rounds: int = 0
    planned: int = 0
    stand_in: str = ""
    line: str = ""
    folders: tuple[str, ...] = ()

    @property
    def length(self) -> str:
        """The rounds as they are shown; of a run that stopped early also those that it would have had."""
        if self.rounds < self.planned:
            return f"{self.rounds} of {self.planned}"
        return str(self.rounds or "")


@dataclass(frozen=True)
class Results:
    """All cells of a recipe and what they say about its claims."""

    recipe: Recipe
    scale: Scale
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def stopped(self) -> list[str]:
        """Which runs stopped early, and where."""
        lines: dict[str, list[str]] = {}
        for row in self.rows:
            if row.rounds < row.planned and row.line not in lines.setdefault(row.length, []):
                lines[row.length].append(row.line)
        return [f"after {length} rounds: {', '.join(names)}" for length, names in lines.items()]

    def as_json(self) -> dict[str, Any]:
        """The results as plain values, for a file."""
        return {
            "recipe": self.recipe.name,
            "source": f"{self.recipe.exhibit.paper}, {self.recipe.exhibit.where}",
            "scale": self.scale,
            "stopped_early": self.stopped,
            "rows": [asdict(row) for row in self.rows],
            "claims": [
                {
                    "claim": verdict.claim.sentence,
                    "seen": verdict.seen,
                    "by_seed": [round(value, 6) for value in verdict.by_seed],
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
    rows = [_row(recipe, scale, label, values[label], entries) for label, entries in cells.items()]
    if recipe.derive:
        means = {
            label: statistics.fmean(converged)
            for label in cells
            if not stand_in(cells[label][0][0])
            and (converged := [value for value in values[label] if not math.isnan(value)])
        }
        rows += [Row(label, _paper(recipe, label), text) for label, text in recipe.derive(means).items()]
    # What other data say is told only where nothing was run on the paper's, and named.
    other = all(stand_in(run) for run, _ in outcomes)
    by_seed: dict[int, dict[str, float]] = {}
    for label, entries in cells.items():
        for (run, outcome, _), value in zip(entries, values[label], strict=True):
            # What was not measured is left out; of a diverged run it counts.
            known = outcome.diverged or not math.isnan(value)
            if known and (other or not stand_in(run)):
                by_seed.setdefault(run.seed, {})[label] = _counted(value, run, outcome)
    named = [_as_tested(claim, [run.label for run, _ in outcomes], other) for claim in recipe.claims]
    verdicts = tuple(judge(claim, list(by_seed.values())) for claim in named)
    return Results(recipe, scale, tuple(rows), verdicts)


def _as_tested(claim: Claim, lines: Sequence[str], other_data: bool) -> Claim:
    """The claim with a sentence that says where the test falls short of it."""
    ran = {word for line in lines for word in line.split()}
    absent = [name for name in claim.speaks_of if name not in ran]
    short = [f"not run: {', '.join(absent)}"] * bool(absent) + ["on other data than the paper's"] * other_data
    return replace(claim, sentence=f"{claim.sentence} ({'; '.join(short)})") if short else claim


def _counted(value: float, run: Run, outcome: Outcome) -> float:
    """A round that was not reached counts as the one after the last: differences are then no larger."""
    if not math.isinf(value):
        return value
    rounds, planned = _rounds(run, outcome)
    return AtLeast(rounds + 1) if rounds < planned else NotReached(rounds + 1)


def _rounds(run: Run, outcome: Outcome) -> tuple[int, int]:
    """The last recorded round, and the round that the run would end with."""
    planned = int(run.config["rounds"])
    if outcome.diverged:
        return planned, planned
    target = run.config.get("stop", {}).get("test_target")
    enough = target is not None and any(value >= target for value in outcome.of("accuracy").values())
    return outcome.rounds, outcome.rounds if enough else planned


def _row(
    recipe: Recipe, scale: Scale, label: str, values: list[float], entries: list[tuple[Run, Outcome, Measure]]
) -> Row:
    run, _, measure = entries[0]
    finite = [value for value in values if math.isfinite(value)]
    diverged = sum(outcome.diverged for _, outcome, _ in entries)
    lengths = [_rounds(run, outcome) for run, outcome, _ in entries if not outcome.diverged]
    # Of seeds that went differently far, the shortest is told, one that stopped early before all others.
    rounds, planned = min(lengths, key=lambda length: (length[0] == length[1], *length), default=(0, 0))
    ours = measure.mean_text(finite) if finite else "NC" if diverged else measure.text(values[0])
    if all(math.isinf(value) for value in values) and rounds < planned and not diverged:
        ours = f"more than {rounds}"
    if finite and len(finite) < len(values):
        ours += f" ({len(values) - len(finite)} of {len(values)} {'NC' if diverged else 'not reached'})"
    row = Row(
        label,
        "" if stand_in(run) else _paper(recipe, label),
        ours,
        seeds=len(values),
        rounds=rounds,
        planned=planned,
        stand_in=stand_in(run),
        line=run.label,
        folders=tuple(folder_of(Path(), recipe, scale, run).as_posix() for run, _, _ in entries),
    )
    if row.stand_in or scale == "small":
        return row
    target = recipe.target(label)
    if target is None or target.value is None or len(finite) < len(values):
        return row
    return replace(row, difference=measure.signed(sum(finite) / len(finite) - target.value))


def _paper(recipe: Recipe, label: str) -> str:
    """The paper's cell as it is shown."""
    if label in recipe.exhibit.doubtful:
        return f"{recipe.exhibit.cells[label].text} (doubtful)"
    target = recipe.target(label)
    return target.text if target else ""


def write_summary(out: Path, results: Results) -> Path:
    """Keep the results beside the runs."""
    path = out / results.recipe.name / results.scale / f"summary-{results.recipe.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results.as_json(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path
