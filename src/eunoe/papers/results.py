"""The results of an exhibit's runs next to the paper's numbers: rows and verdicts."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from eunoe.papers.claims import Verdict
from eunoe.papers.exhibit import Exhibit, PlannedRun, Scale
from eunoe.papers.found import FoundRun
from eunoe.papers.judging import Judged, Reading, judged_claims
from eunoe.papers.keys import Key
from eunoe.papers.measures import Outcome
from eunoe.papers.outcomes import outcome_of


@dataclass(frozen=True)
class Row:
    """One cell: the paper's text, ours over the seeds, the difference, and the runs behind it.

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
        """The rounds as shown; for a run with fewer than planned, these too."""
        if self.rounds < self.planned:
            return f"{self.rounds} of {self.planned}"
        return str(self.rounds or "")

    @property
    def count(self) -> str:
        """How many seeds, as it is shown."""
        return str(len(self.seeds) or "")


@dataclass(frozen=True)
class Results:
    """All cells of an exhibit, and the verdicts on its claims."""

    exhibit: Exhibit
    scale: Scale
    rows: tuple[Row, ...]
    judged: tuple[Judged, ...]

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on its claims."""
        return [one.verdict for one in self.judged]

    @property
    def shortened(self) -> list[str]:
        """Which runs have fewer rounds than planned, and how many."""
        lines: dict[str, list[str]] = {}
        for row in self.rows:
            if row.rounds < row.planned and row.line not in lines.setdefault(row.length, []):
                lines[row.length].append(row.line)
        return [f"{length} rounds: {', '.join(names)}" for length, names in lines.items()]

    def as_json(self) -> dict[str, Any]:
        """The results as plain values, for a file."""
        own = self.exhibit.own or self.exhibit.source.kind == "question"
        return {
            "exhibit": self.exhibit.name,
            "source": f"{self.exhibit.source.paper}, {self.exhibit.source.where}",
            "scale": self.scale,
            "shortened": self.shortened,
            "rows": [{**asdict(row), "seeds": list(row.seeds)} for row in self.rows],
            "claims": [
                {
                    "claim": one.verdict.claim.sentence,
                    "verdict": one.verdict.word,
                    "estimate": one.verdict.estimate,
                    "by_seed": [round(value, 6) for value in one.verdict.by_seed],
                    "diverged": one.verdict.diverged,
                    "not_reached": one.verdict.not_reached,
                    "own": own or one.verdict.claim.own,
                    "seeds": one.verdict.seeds,
                    "calibrated": one.verdict.calibrated,
                    "nobody": one.verdict.nobody,
                    "rounds": one.rounds,
                    "networks": list(one.networks),
                    "reached": [reached.text() for reached in one.reached],
                    "text": one.verdict.text(),
                }
                for one in self.judged
            ],
        }


def collect(exhibit: Exhibit, scale: Scale, found: Sequence[FoundRun]) -> Results:
    """Rows and verdicts from the existing runs."""
    outcomes = [(one.planned, outcome_of(one)) for one in found]
    return rows_and_verdicts(exhibit, scale, [(p, o) for p, o in outcomes if o.diverged or o.series])


def rows_and_verdicts(
    exhibit: Exhibit, scale: Scale, outcomes: Sequence[tuple[PlannedRun, Outcome]]
) -> Results:
    """Rows and verdicts from the records of the runs."""
    cells: dict[Key, list[Reading]] = {}
    for planned, outcome in outcomes:
        for column, measure in exhibit.measures.items():
            reading = Reading(planned, outcome, measure, measure.read(outcome))
            cells.setdefault(planned.key.but(measure=column), []).append(reading)
    rows = [
        _row(exhibit, scale, cell, readings)
        for cell, readings in cells.items()
        if _measured(readings) and not readings[0].measure.hidden
    ]
    if exhibit.derive:
        means = {
            cell: statistics.fmean(converged)
            for cell, readings in cells.items()
            if not readings[0].planned.stand_in
            and not readings[0].measure.hidden
            and (converged := [r.value for r in readings if not math.isnan(r.value)])
        }
        rows += [Row(label, _derived(exhibit, label), text) for label, text in exhibit.derive(means).items()]
    return Results(exhibit, scale, tuple(rows), judged_claims(exhibit, scale, cells))


def _measured(readings: Sequence[Reading]) -> bool:
    """Whether a run has a value for this cell, or diverged; some measure less than others."""
    return any(reading.outcome.diverged or not math.isnan(reading.value) for reading in readings)


def _row(exhibit: Exhibit, scale: Scale, cell: Key, readings: Sequence[Reading]) -> Row:
    planned, measure, label = readings[0].planned, readings[0].measure, cell.label
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
    row = Row(
        label,
        "" if planned.stand_in else _paper(exhibit, cell),
        ours,
        seeds=tuple(reading.planned.seed for reading in readings),
        rounds=rounds,
        planned=length,
        stand_in=planned.stand_in,
        line=planned.line,
    )
    if row.stand_in or scale != "full":
        return row
    target = exhibit.target(cell)
    if target is None or target.value is None or len(finite) < len(values):
        return row
    return replace(row, difference=measure.signed(sum(finite) / len(finite) - target.value))


def _paper(exhibit: Exhibit, cell: Key) -> str:
    """The paper's cell as shown."""
    if cell.label in exhibit.source.doubtful:
        return f"{exhibit.source.cells[cell.label].text} (doubtful)"
    target = exhibit.target(cell)
    return target.text if target else ""


def _derived(exhibit: Exhibit, label: str) -> str:
    """The paper's cell of a row that is computed from others."""
    target = exhibit.source.target(label)
    return target.text if target else ""
