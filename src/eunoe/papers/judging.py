"""Which runs a claim is judged on: in which seeds, of which methods, and how far FedAvg is trained in them.

All seeds are judged on the same lines. A seed on which a setting or the claim itself was chosen counts only
where it is alone, a run that is shorter than planned only at full scale, and stand-in data only if nothing
was run on the paper's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eunoe.papers.claims import AtLeast, Claim, NotReached, Values, Verdict, judge
from eunoe.papers.exhibit import Exhibit, PlannedRun, Scale
from eunoe.papers.keys import Key
from eunoe.papers.measures import Measure, Outcome
from eunoe.papers.trained import Reached, untrained, what_is_reached

Run = tuple[PlannedRun, Outcome]


@dataclass(frozen=True)
class Reading:
    """The value of one run for one cell."""

    planned: PlannedRun
    outcome: Outcome
    measure: Measure
    value: float

    @property
    def length(self) -> tuple[int, int]:
        """The last recorded round, and the round that the run would end with."""
        config, outcome = self.planned.values, self.outcome
        planned = int(config["rounds"])
        if outcome.diverged:
            return planned, planned
        target = config.get("stop", {}).get("test_target")
        enough = target is not None and any(value >= target for value in outcome.of("accuracy").values())
        return outcome.rounds, outcome.rounds if enough else planned

    @property
    def counted(self) -> float:
        """A target that was not reached counts as the round after the last, which understates differences."""
        if not math.isinf(self.value):
            return self.value
        rounds, planned = self.length
        return AtLeast(rounds + 1) if rounds < planned else NotReached(rounds + 1)

    def counts(self, scale: Scale, stand_in: bool) -> bool:
        """Whether there is a value, of a run that is long enough, on data that are to be judged."""
        # Missing values are left out, except those of a diverged run.
        known = self.outcome.diverged or not math.isnan(self.value)
        rounds, planned = self.length
        # Below full scale the length was chosen for the networks to learn something.
        long_enough = scale == "full" or rounds >= planned
        return known and long_enough and (stand_in or not self.planned.stand_in)


@dataclass(frozen=True)
class Judged:
    """A verdict, the rounds of the runs that it is on, and what FedAvg reaches in their seeds."""

    verdict: Verdict
    rounds: str
    reached: tuple[Reached, ...]


def judged_claims(
    exhibit: Exhibit, scale: Scale, runs: Sequence[Run], cells: Mapping[Key, Sequence[Reading]]
) -> tuple[Judged, ...]:
    """The verdicts on an exhibit's claims, from its runs and their values by cell."""
    only_stand_in = all(planned.stand_in for planned, _ in runs)
    by_seed: dict[int, dict[Key, Reading]] = {}
    for cell, readings in cells.items():
        for reading in readings:
            if reading.counts(scale, only_stand_in):
                by_seed.setdefault(reading.planned.seed, {})[cell] = reading
    return tuple(_judged(exhibit, claim, scale, runs, by_seed, only_stand_in) for claim in exhibit.claims)


def _judged(
    exhibit: Exhibit,
    claim: Claim,
    scale: Scale,
    runs: Sequence[Run],
    by_seed: Mapping[int, Mapping[Key, Reading]],
    other_data: bool,
) -> Judged:
    """The verdict on a claim, which names the methods that it is not on."""
    values = {seed: {c: r.counted for c, r in cells.items()} for seed, cells in by_seed.items()}
    tested = {seed: found for seed, found in values.items() if claim.statistic(found) is not None}
    chosen = claim.chosen_on.get(scale, ())
    fair = {seed: found for seed, found in tested.items() if seed not in chosen}
    counted = _alike(claim, fair or tested) or values
    methods = {str(cell.get("method")) for found in counted.values() for cell in found}
    # What FedAvg reaches is told by all of its runs of these seeds.
    mine = [(planned, outcome) for planned, outcome in runs if planned.seed in counted]
    window = max(measure.until for measure in exhibit.measures.values())
    return Judged(
        judge(
            _as_tested(claim, methods, other_data),
            list(counted.values()),
            untrained(exhibit, mine),
            bool(tested) and not fair,
        ),
        _length([by_seed[seed][cell] for seed, found in counted.items() for cell in found]),
        tuple(what_is_reached(mine, window)) if exhibit.needs_training else (),
    )


def _alike(claim: Claim, seeds: Mapping[int, Values]) -> Mapping[int, Values]:
    """The values of all seeds, without those that not every seed has: a rival must be the same in each.

    Where nothing is left to compare, the seed with the most values.
    """
    if not seeds:
        return seeds
    common = set.intersection(*(set(values) for values in seeds.values()))
    alike = {seed: {c: v for c, v in values.items() if c in common} for seed, values in seeds.items()}
    if all(claim.statistic(values) is not None for values in alike.values()):
        return alike
    most = max(seeds, key=lambda seed: len(seeds[seed]))
    return {most: seeds[most]}


def _length(readings: Sequence[Reading]) -> str:
    """How many rounds runs have, of how many; from the fewest to the most."""
    if not readings:
        return ""
    lengths = [reading.length for reading in readings]
    fewest, most = (choose(rounds for rounds, _ in lengths) for choose in (min, max))
    planned = max(planned for _, planned in lengths)
    shown = str(most) if fewest == most else f"{fewest} to {most}"
    return shown if fewest >= planned else f"{shown} of {planned}"


def _as_tested(claim: Claim, compared: set[str], other_data: bool) -> Claim:
    """The claim with a note on where the test falls short of it."""
    absent = [name for name in claim.speaks_of if name not in compared]
    present = [name for name in claim.speaks_of if name in compared]
    # Whichever list is shorter says how far the test falls short.
    few = present and len(present) < len(absent)
    missing = f"compared: {', '.join(present)} only" if few else f"not compared: {', '.join(absent)}"
    short = [missing] * bool(absent) + ["on other data than the paper's"] * other_data
    return replace(claim, sentence=f"{claim.sentence} ({'; '.join(short)})") if short else claim
