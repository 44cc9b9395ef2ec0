"""Which runs a claim is judged on: in which seeds, of which methods, and how far FedAvg is trained in them.

All seeds are judged on the same lines, and what a claim compares is what its statistic reads. A seed on which
a setting or the claim itself was chosen counts only where there is no other, a run that is shorter than
planned only at full scale, and stand-in data only if nothing was run on the paper's.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from eunoe.papers.claims import AtLeast, Claim, NotReached, Values, Verdict, distances, judge
from eunoe.papers.exhibit import Exhibit, PlannedRun, Scale
from eunoe.papers.keys import Key
from eunoe.papers.measures import Measure, Outcome
from eunoe.papers.trained import Reached, is_fedavg, network, untrained, what_is_reached


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
    """A verdict, and of the runs that it compares the rounds, the networks and what FedAvg reaches."""

    verdict: Verdict
    rounds: str
    networks: tuple[str, ...]
    reached: tuple[Reached, ...]


class _Read(Mapping[Key, float]):
    """The values of a seed, which remember which of them a statistic reads."""

    def __init__(self, values: Values) -> None:
        self.values_of, self.cells = values, set[Key]()

    def __getitem__(self, cell: Key) -> float:
        self.cells.add(cell)
        return self.values_of[cell]

    def __contains__(self, cell: object) -> bool:
        return cell in self.values_of

    def __iter__(self) -> Iterator[Key]:
        return iter(self.values_of)

    def __len__(self) -> int:
        return len(self.values_of)


def judged_claims(
    exhibit: Exhibit, scale: Scale, cells: Mapping[Key, Sequence[Reading]]
) -> tuple[Judged, ...]:
    """The verdicts on an exhibit's claims, from the values of its runs by cell."""
    every = [reading for readings in cells.values() for reading in readings]
    only_stand_in = bool(every) and all(reading.planned.stand_in for reading in every)
    by_seed: dict[int, dict[Key, Reading]] = {}
    for cell, readings in cells.items():
        for reading in readings:
            if reading.counts(scale, only_stand_in):
                by_seed.setdefault(reading.planned.seed, {})[cell] = reading
    return tuple(_judged(exhibit, claim, scale, by_seed, only_stand_in) for claim in exhibit.claims)


def _judged(
    exhibit: Exhibit,
    claim: Claim,
    scale: Scale,
    by_seed: Mapping[int, Mapping[Key, Reading]],
    other_data: bool,
) -> Judged:
    """The verdict on a claim, which names the methods that it does not compare."""
    values = {seed: {c: r.counted for c, r in cells.items()} for seed, cells in by_seed.items()}
    tested = {seed: found for seed, found in values.items() if claim.statistic(found) is not None}
    chosen = claim.chosen_on.get(scale, ())
    fair = {seed: found for seed, found in tested.items() if seed not in chosen}
    counted = _alike(claim, fair or tested) or values
    read = _cells_read(claim, counted)
    compared = [by_seed[seed][cell] for seed, found in counted.items() for cell in found if cell in read]
    # A claim without FedAvg is about networks that FedAvg has trained as well.
    with_fedavg = any(is_fedavg(reading.planned) for reading in compared)
    trained = compared if with_fedavg else [by_seed[seed][cell] for seed in counted for cell in counted[seed]]
    until = max((reading.measure.until for reading in compared), default=math.inf)
    reached = what_is_reached(_runs(trained), until) if exhibit.needs_training else []
    as_tested = _as_tested(claim, {str(cell.get("method")) for cell in read}, other_data)
    return Judged(
        judge(as_tested, list(counted.values()), untrained(reached), bool(tested) and not fair),
        _length(compared),
        tuple(dict.fromkeys(", ".join(network(reading.planned.values)) for reading in compared)),
        tuple(reached),
    )


def _cells_read(claim: Claim, seeds: Mapping[int, Values]) -> set[Key]:
    """The cells that a claim's statistic reads; all where it finds nothing to compare."""
    every = list(seeds.values())
    reads = [_Read(values) for values in (distances(every) if claim.of_spread else every)]
    tested = [read for read in reads if claim.statistic(read) is not None]
    return {cell for read in tested or reads for cell in (read.cells if tested else read.values_of)}


def _runs(readings: Sequence[Reading]) -> list[tuple[PlannedRun, Outcome]]:
    """The runs of some readings, each once."""
    runs = {(reading.planned.line, reading.planned.seed): reading for reading in readings}
    return [(reading.planned, reading.outcome) for reading in runs.values()]


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
    """How many rounds runs have, from the fewest to the most, and of how many where one has fewer."""
    lengths = [reading.length for reading in readings if not reading.outcome.diverged]
    if not lengths:
        return ""
    fewest, most = (choose(rounds for rounds, _ in lengths) for choose in (min, max))
    shown = str(most) if fewest == most else f"{fewest} to {most}"
    cut = [planned for rounds, planned in lengths if rounds < planned]
    return f"{shown} of {max(cut)}" if cut else shown


def _as_tested(claim: Claim, compared: set[str], other_data: bool) -> Claim:
    """The claim with a note on where the test falls short of it."""
    absent = [name for name in claim.speaks_of if name not in compared]
    present = [name for name in claim.speaks_of if name in compared]
    # Whichever list is shorter says how far the test falls short.
    few = present and len(present) < len(absent)
    missing = f"compared: {', '.join(present)} only" if few else f"not compared: {', '.join(absent)}"
    short = [missing] * bool(absent) + ["on other data than the paper's"] * other_data
    return replace(claim, sentence=f"{claim.sentence} ({'; '.join(short)})") if short else claim
