"""The results of an experiment's runs next to the paper's numbers: rows and verdicts."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from eunoe_papers.claims import NEAR, VALIDATION, Label, Values, near_best
from eunoe_papers.experiment import Experiment, PlannedRun, Scale
from eunoe_papers.judge import Verdict, judge
from eunoe_papers.measures import Outcome
from eunoe_papers.outcomes import Reading, read_outcome
from eunoe_papers.store import FoundRun


@dataclass(frozen=True)
class Row:
    """One cell of a table: the paper's value, ours over seeds, their difference, and the runs.

    `line` and `seeds` name the runs, `rounds` are the fewest of a run, `planned` how many it would have had.
    """

    label: str
    paper: str
    ours: str
    difference: str = ""
    seeds: tuple[int, ...] = ()
    rounds: int = 0
    planned: int = 0
    stand_in: str = ""
    line: str = ""

    @property
    def length(self) -> str:
        """The rounds as shown, with those planned if there are fewer."""
        return f"{self.rounds} of {self.planned}" if self.rounds < self.planned else str(self.rounds or "")

    @property
    def count(self) -> str:
        """The number of seeds as shown."""
        return str(len(self.seeds) or "")


@dataclass(frozen=True)
class Results:
    """All cells of an experiment, and the verdicts on its claims."""

    experiment: Experiment
    scale: Scale
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def shortened(self) -> list[str]:
        """Which runs have fewer rounds than planned, and how many."""
        arms: dict[str, list[str]] = {}
        for row in self.rows:
            if row.rounds < row.planned and row.line not in arms.setdefault(row.length, []):
                arms[row.length].append(row.line)
        return [f"{length} rounds: {', '.join(names)}" for length, names in arms.items()]

    def as_json(self) -> dict[str, Any]:
        """Return the results as plain values, for a file."""
        source = self.experiment.source
        return {
            "experiment": self.experiment.name,
            "source": f"{source.paper}, {source.where}",
            "scale": self.scale,
            "shortened": self.shortened,
            "rows": [{**asdict(row), "seeds": list(row.seeds)} for row in self.rows],
            "claims": [
                {
                    "claim": verdict.sentence,
                    "verdict": verdict.word,
                    "unit": verdict.claim.unit,
                    "effect": [None if math.isnan(value) else round(value, 6) for value in verdict.effect],
                    "by_seed": [round(value, 6) for value in verdict.by_seed],
                    "seeds": verdict.seeds,
                    "counted": verdict.claim.counted and source.kind != "question",
                    "compared": list(verdict.compared),
                    "estimate": verdict.estimate,
                    "text": verdict.text(),
                }
                for verdict in self.verdicts
            ],
        }


def collect(experiment: Experiment, scale: Scale, runs: Sequence[FoundRun]) -> Results:
    """Collect rows and verdicts from existing runs."""
    outcomes = [(run.planned, read_outcome(run)) for run in runs]
    return collect_outcomes(experiment, scale, [(p, o) for p, o in outcomes if o.diverged or o.series])


def collect_outcomes(
    experiment: Experiment, scale: Scale, outcomes: Sequence[tuple[PlannedRun, Outcome]]
) -> Results:
    """Collect rows and verdicts from the values that runs recorded."""
    cells: dict[Label, list[Reading]] = {}
    for planned, outcome in outcomes:
        for column, measure in experiment.measures.items():
            reading = Reading(planned, outcome, measure, measure.read(outcome))
            cells.setdefault(planned.arm.replace(measure=column), []).append(reading)
    # Validation only serves to choose learning rates.
    shown = {cell: readings for cell, readings in cells.items() if cell.get("measure") != VALIDATION}
    rows = [
        _row(experiment, scale, cell, readings)
        for cell, readings in shown.items()
        # Some runs measure less than others.
        if any(reading.outcome.diverged or not math.isnan(reading.value) for reading in readings)
    ]
    if experiment.tolerance:
        rows += _tolerance_rows(experiment, shown)
    return Results(experiment, scale, tuple(rows), judge(experiment, scale, cells))


def _row(experiment: Experiment, scale: Scale, cell: Label, readings: Sequence[Reading]) -> Row:
    planned, measure = readings[0].planned, readings[0].measure
    values = [reading.value for reading in readings]
    finite = [value for value in values if math.isfinite(value)]
    diverged = sum(reading.outcome.diverged for reading in readings)
    lengths = [reading.length for reading in readings if not reading.outcome.diverged]
    # Of seeds of different length, the shortest is shown, and one that is too short before all others.
    rounds, length = min(lengths, key=lambda length: (length[0] == length[1], *length), default=(0, 0))
    ours = measure.mean_text(finite) if finite else "NC" if diverged else measure.text(values[0])
    if all(math.isinf(value) for value in values) and rounds < length and not diverged:
        ours = f"more than {rounds}"
    if finite and len(finite) < len(values):
        why = "NC" if diverged else "not reached" if any(map(math.isinf, values)) else "too short"
        ours += f" ({len(values) - len(finite)} of {len(values)} {why})"
    target = experiment.target(cell)
    paper = target.text if target else ""
    if str(cell) in experiment.source.doubtful:
        paper = f"{experiment.source.cells[str(cell)].text} (doubtful)"
    row = Row(
        str(cell),
        "" if planned.stand_in else paper,
        ours,
        seeds=tuple(reading.planned.seed for reading in readings),
        rounds=rounds,
        planned=length,
        stand_in=planned.stand_in,
        line=planned.line,
    )
    if row.stand_in or scale != "full" or target is None or target.value is None or len(finite) < len(values):
        return row
    return replace(row, difference=measure.signed(sum(finite) / len(finite) - target.value))


def _tolerance_rows(experiment: Experiment, cells: Mapping[Label, Sequence[Reading]]) -> list[Row]:
    """Return the rows of a table of the best learning rates and those near them, from the mean values."""
    means = {
        cell: statistics.fmean(converged)
        for cell, readings in cells.items()
        if not readings[0].planned.stand_in
        and (converged := [reading.value for reading in readings if not math.isnan(reading.value)])
    }
    rows = []
    for label, text in tolerance_cells(means).items():
        target = experiment.source.target(label)
        rows.append(Row(label, target.text if target else "", text))
    return rows


def tolerance_cells(values: Values) -> dict[str, str]:
    """Return the cells of table 2 of the TCE paper: the best accuracy and the learning rates near it."""
    cells = {}
    for row, (best, *_) in near_best(values, 0.0).items():
        (value,) = (v for cell, v in values.items() if cell.replace(lr="") == row and cell.get("lr") == best)
        cells[f"{row} best"] = f"{value:.3f}"
        cells[f"{row} best lr"] = str(best)
    for points in NEAR:
        for row, rates in near_best(values, points / 100).items():
            cells[f"{row} within {points}"] = ", ".join(str(rate) for rate in rates)
    return cells
