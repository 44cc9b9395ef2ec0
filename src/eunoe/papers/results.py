"""The results of an exhibit's runs next to the paper's numbers: rows and verdicts."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from eunoe.papers.claims import AtLeast, Claim, NotReached, Values, Verdict, judge
from eunoe.papers.exhibit import Exhibit, PlannedRun, Scale
from eunoe.papers.found import FoundRun
from eunoe.papers.keys import Key
from eunoe.papers.measures import Measure, Outcome
from eunoe.papers.outcomes import outcome_of
from eunoe.papers.trained import Reached, network, untrained, what_is_reached


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
    """All cells of an exhibit, the verdicts on its claims, and the data and networks of its runs."""

    exhibit: Exhibit
    scale: Scale
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]
    networks: tuple[str, ...] = ()
    reached: tuple[Reached, ...] = ()

    @property
    def shortened(self) -> list[str]:
        """Which runs have fewer rounds than planned, and how many."""
        lines: dict[str, list[str]] = {}
        for row in self.rows:
            if row.rounds < row.planned and row.line not in lines.setdefault(row.length, []):
                lines[row.length].append(row.line)
        return [f"{length} rounds: {', '.join(names)}" for length, names in lines.items()]

    @property
    def length(self) -> str:
        """How many rounds the runs have, of how many; from the fewest to the most."""
        rows = [row for row in self.rows if row.rounds]
        fewest, most = (choose((row.rounds for row in rows), default=0) for choose in (min, max))
        planned = max((row.planned for row in rows), default=0)
        shown = str(most) if fewest == most else f"{fewest} to {most}"
        return shown if fewest >= planned else f"{shown} of {planned}"

    def as_json(self) -> dict[str, Any]:
        """The results as plain values, for a file."""
        own = self.exhibit.own or self.exhibit.source.kind == "question"
        return {
            "exhibit": self.exhibit.name,
            "source": f"{self.exhibit.source.paper}, {self.exhibit.source.where}",
            "scale": self.scale,
            "networks": list(self.networks),
            "reached": [one.text() for one in self.reached],
            "rounds": self.length,
            "shortened": self.shortened,
            "rows": [{**asdict(row), "seeds": list(row.seeds)} for row in self.rows],
            "claims": [
                {
                    "claim": verdict.claim.sentence,
                    "verdict": verdict.word,
                    "estimate": verdict.estimate,
                    "by_seed": [round(value, 6) for value in verdict.by_seed],
                    "diverged": verdict.diverged,
                    "not_reached": verdict.not_reached,
                    "own": own or verdict.claim.own,
                    "seeds": verdict.seeds,
                    "text": verdict.text(),
                }
                for verdict in self.verdicts
            ],
        }


@dataclass(frozen=True)
class _Reading:
    """The value of one run for one cell."""

    planned: PlannedRun
    outcome: Outcome
    measure: Measure
    value: float


def collect(exhibit: Exhibit, scale: Scale, found: Sequence[FoundRun]) -> Results:
    """Rows and verdicts from the existing runs."""
    outcomes = [(one.planned, outcome_of(one)) for one in found]
    return rows_and_verdicts(exhibit, scale, [(p, o) for p, o in outcomes if o.diverged or o.series])


def rows_and_verdicts(
    exhibit: Exhibit, scale: Scale, outcomes: Sequence[tuple[PlannedRun, Outcome]]
) -> Results:
    """Rows and verdicts from the records of the runs."""
    cells: dict[Key, list[_Reading]] = {}
    for planned, outcome in outcomes:
        for column, measure in exhibit.measures.items():
            reading = _Reading(planned, outcome, measure, measure.read(outcome))
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
    # Stand-in data count only if nothing was run on the paper's data, and are then named.
    other = all(planned.stand_in for planned, _ in outcomes)
    by_seed: dict[int, dict[Key, float]] = {}
    for cell, readings in cells.items():
        for reading in readings:
            # Missing values are left out, except those of a diverged run.
            known = reading.outcome.diverged or not math.isnan(reading.value)
            if known and _long_enough(reading, scale) and (other or not reading.planned.stand_in):
                by_seed.setdefault(reading.planned.seed, {})[cell] = _counted(reading)
    short = untrained(exhibit, outcomes)
    window = max(measure.until for measure in exhibit.measures.values())
    reached = what_is_reached(outcomes, window) if exhibit.needs_training else []
    verdicts = tuple(_judged(claim, scale, by_seed, other, short) for claim in exhibit.claims)
    networks = dict.fromkeys(", ".join(network(planned.values)) for planned, _ in outcomes)
    return Results(exhibit, scale, tuple(rows), verdicts, tuple(networks), tuple(reached))


def _judged(
    claim: Claim, scale: Scale, by_seed: Mapping[int, Values], other_data: bool, untrained: str
) -> Verdict:
    """The verdict on a claim, which names the methods that were not run."""
    tested = {seed: values for seed, values in by_seed.items() if claim.statistic(values) is not None}
    chosen = claim.chosen_on.get(scale, ())
    fair = {seed: values for seed, values in tested.items() if seed not in chosen}
    counted = _alike(claim, list((fair or tested).values())) or list(by_seed.values())
    methods = {str(cell.get("method")) for values in counted for cell in values}
    return judge(_as_tested(claim, methods, other_data), counted, untrained, bool(tested) and not fair)


def _alike(claim: Claim, seeds: Sequence[Values]) -> Sequence[Values]:
    """The values of all seeds, without those that not every seed has: a rival must be the same in each.

    Where nothing is left to compare, the seed with the most values.
    """
    if not seeds:
        return seeds
    common = set.intersection(*(set(values) for values in seeds))
    alike = [{cell: value for cell, value in values.items() if cell in common} for values in seeds]
    if all(claim.statistic(values) is not None for values in alike):
        return alike
    return [max(seeds, key=len)]


def _long_enough(reading: _Reading, scale: Scale) -> bool:
    """Whether a run counts: below full scale its length was chosen for the networks to learn something."""
    rounds, planned = _rounds(reading)
    return scale == "full" or rounds >= planned


def _measured(readings: Sequence[_Reading]) -> bool:
    """Whether a run has a value for this cell, or diverged; some measure less than others."""
    return any(reading.outcome.diverged or not math.isnan(reading.value) for reading in readings)


def _as_tested(claim: Claim, ran: set[str], other_data: bool) -> Claim:
    """The claim with a note on where the test falls short of it."""
    absent = [name for name in claim.speaks_of if name not in ran]
    present = [name for name in claim.speaks_of if name in ran]
    # Whichever list is shorter says how far the test falls short.
    few = present and len(present) < len(absent)
    missing = f"run: {', '.join(present)} only" if few else f"not run: {', '.join(absent)}"
    short = [missing] * bool(absent) + ["on other data than the paper's"] * other_data
    return replace(claim, sentence=f"{claim.sentence} ({'; '.join(short)})") if short else claim


def _counted(reading: _Reading) -> float:
    """A target that was not reached counts as the round after the last, which understates differences."""
    if not math.isinf(reading.value):
        return reading.value
    rounds, planned = _rounds(reading)
    return AtLeast(rounds + 1) if rounds < planned else NotReached(rounds + 1)


def _rounds(reading: _Reading) -> tuple[int, int]:
    """The last recorded round, and the round that the run would end with."""
    config, outcome = reading.planned.values, reading.outcome
    planned = int(config["rounds"])
    if outcome.diverged:
        return planned, planned
    target = config.get("stop", {}).get("test_target")
    enough = target is not None and any(value >= target for value in outcome.of("accuracy").values())
    return outcome.rounds, outcome.rounds if enough else planned


def _row(exhibit: Exhibit, scale: Scale, cell: Key, readings: Sequence[_Reading]) -> Row:
    planned, measure, label = readings[0].planned, readings[0].measure, cell.label
    values = [reading.value for reading in readings]
    finite = [value for value in values if math.isfinite(value)]
    diverged = sum(reading.outcome.diverged for reading in readings)
    lengths = [_rounds(reading) for reading in readings if not reading.outcome.diverged]
    # Of seeds of different length, the shortest is shown, and one that is too short before all others.
    rounds, length = min(lengths, key=lambda length: (length[0] == length[1], *length), default=(0, 0))
    ours = measure.mean_text(finite) if finite else "NC" if diverged else measure.text(values[0])
    if all(math.isinf(value) for value in values) and rounds < length and not diverged:
        ours = f"more than {rounds}"
    if finite and len(finite) < len(values):
        ours += f" ({len(values) - len(finite)} of {len(values)} {'NC' if diverged else 'not reached'})"
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
