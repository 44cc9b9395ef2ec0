"""Claims of a paper as a statistic per seed, positive where the claim holds, and the rules of judging them.

    seen                        the 95% interval of the statistic over seeds, paired by seed, is above zero
    contradicted                it is below zero
    undecided                   neither
    no difference               what is compared is equal in every seed
    holds in one seed           there is one seed only, and so no interval; or: does not hold in one seed
    ..., calibrated             an open setting or the claim was chosen on all of these seeds
    untrained: no verdict       the networks had not learned enough (trained.py)
    not tested                  what is compared was not run, or not for long enough, or nobody got there

Where rounds to an accuracy are compared, a target that a run did not reach stays censored: it counts as the
round after its last, the least that it can be, and the verdict says how many seeds have such a value. Where
nobody got there it is a tie. A seed in which the runs that should be ahead diverged counts against the claim.

A claim that two values are about equal is seen if the interval of their difference lies within its margin,
and contradicted if it lies outside. One on how much results differ between seeds compares how far each seed's
values are from their medians over seeds, with five seeds at least.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from eunoe.analysis.statistics import student_interval
from eunoe.papers.keys import Key

# The value of each cell of an exhibit for one seed.
Values = Mapping[Key, float]
# None if the compared runs are missing or not decided yet.
Statistic = Callable[[Values], float | None]


class NotReached(float):
    """The round after the last, for a run that did not reach its target."""


class AtLeast(NotReached):
    """An open value of a run that stopped early: it would have become this or more."""


class Censored(float):
    """A difference with a round that was not reached: it would be this or further from zero."""


class Tie(Censored):
    """Nobody got there."""


@dataclass(frozen=True)
class Claim:
    """A sentence, and the statistic that is positive if it holds: from the values of one seed's runs.

    `speaks_of` are the methods that the sentence is about, where the statistic takes those that were run.
    `of_spread` gives the statistic distances from the median over seeds in place of the values themselves.
    `within` makes the statistic a difference that is small if the claim holds: by less than this.
    `chosen_on` has, by scale, the seeds that are no test of the claim: on their runs a setting was chosen
    that the paper leaves open, or the claim itself. They count only where no other seed has run.
    `own` is true of a claim that the paper does not make.
    """

    sentence: str
    statistic: Statistic
    unit: str = "points"
    speaks_of: tuple[str, ...] = ()
    of_spread: bool = False
    within: float | None = None
    chosen_on: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    own: bool = False


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim: the mean of its statistic over seeds with a 95% interval, paired by seed.

    `untrained` states why the networks are too little trained for a verdict; it is empty if they are not.
    `calibrated` is true if a setting or the claim was chosen on all of the seeds that there are, `nobody` if
    a target was reached in no seed.
    """

    claim: Claim
    by_seed: tuple[float, ...]
    mean: float
    low: float
    high: float
    diverged: int = 0
    untrained: str = ""
    calibrated: bool = False
    nobody: bool = False

    @property
    def seeds(self) -> int:
        """How many seeds the verdict is on."""
        return len(self.by_seed) + self.diverged

    @property
    def censored(self) -> int:
        """In how many seeds a compared round was not reached."""
        return sum(isinstance(value, Censored) for value in self.by_seed)

    @property
    def not_reached(self) -> str:
        """Who did not reach the compared accuracy, and in how many seeds."""
        open_ended = [value for value in self.by_seed if isinstance(value, Censored)]
        counts = {
            "the others did not get there": sum(value > 0 for value in open_ended),
            "it did not get there": sum(value < 0 for value in open_ended),
            "nobody got there": sum(isinstance(value, Tie) for value in open_ended),
        }
        return ", ".join(f"{who} in {_seeds(count)}" for who, count in counts.items() if count)

    @property
    def estimate(self) -> str:
        """The mean with its interval, if there is one."""
        if not self.by_seed:
            return ""
        scale = 100 if self.claim.unit == "points" else 1
        mean = f"{self.mean * scale:+.2f} {self.claim.unit}"
        if self.censored:
            mean = f"at {'least' if self.mean > 0 else 'most'} {mean}"
        if len(self.by_seed) > 1 and len(set(self.by_seed)) == 1:
            return f"{mean} in every seed"
        return mean + f" [{self.low * scale:+.2f}, {self.high * scale:+.2f}]" * (not math.isnan(self.low))

    @property
    def word(self) -> str:
        """The verdict in short."""
        if not self.seeds:
            return "not tested"
        if self.untrained:
            return "untrained: no verdict"
        low, high = self._margins()
        if self.seeds == 1:
            held = "holds in one seed" if low > 0 else "does not hold in one seed"
            return held + ", calibrated on it" * self.calibrated
        if not self.diverged and not any(self.by_seed) and self.claim.within is None:
            found = "no difference"
        elif low > 0 and not self.diverged:
            found = "seen"
        else:
            found = "contradicted" if high < 0 or not self.by_seed else "undecided"
        return found + ", calibrated on these seeds" * self.calibrated

    def _margins(self) -> tuple[float, float]:
        """The least and the most by which the claim may hold; of one seed, what it says."""
        low, high = (self.mean, self.mean) if len(self.by_seed) < 2 else (self.low, self.high)
        margin = self.claim.within
        if margin is None:
            return low, high
        nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        return margin - max(abs(low), abs(high)), margin - nearest

    def text(self) -> str:
        """The verdict as one line."""
        if not self.seeds:
            absent = "what it compares was not run, or not for long enough"
            return f"not tested: {'nobody got there' if self.nobody else absent}"
        if self.untrained:
            return f"{self.word} ({self.untrained})"
        found = [self.estimate] * bool(self.by_seed)
        found += [_seeds(len(self.by_seed))] * (self.seeds > 1 and bool(self.by_seed))
        found += [self.not_reached] * bool(self.censored)
        found += [f"{_seeds(self.diverged)} diverged"] * bool(self.diverged)
        return f"{self.word}: {', '.join(found)}"


def judge(claim: Claim, seeds: Sequence[Values], untrained: str = "", calibrated: bool = False) -> Verdict:
    """The verdict from each seed's values; seeds that lack a run of the claim are left out.

    A seed with only diverged runs to compare counts against the claim.
    """
    found, diverged = [], 0
    for values in distances(seeds) if claim.of_spread else seeds:
        statistic = claim.statistic(values)
        if statistic is None:
            continue
        if math.isnan(statistic):
            diverged += 1
        else:
            found.append(statistic)
    nobody = bool(found) and not diverged and all(isinstance(value, Tie) for value in found)
    found = [] if nobody else found
    return Verdict(claim, tuple(found), *student_interval(found), diverged, untrained, calibrated, nobody)


def distances(seeds: Sequence[Values]) -> list[Values]:
    """How far each seed's values are from their medians over seeds; none with fewer than five seeds.

    Of three seeds one is always at the median, and the distances of the others say little.
    """
    by_cell: dict[Key, list[float]] = {}
    for values in seeds:
        for cell, value in values.items():
            by_cell.setdefault(cell, []).append(value)
    middle = {cell: statistics.median(every) for cell, every in by_cell.items() if len(every) >= 5}
    return [{cell: abs(v - middle[cell]) for cell, v in values.items() if cell in middle} for values in seeds]


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count != 1)}"


def least(found: Iterable[float | None]) -> float | None:
    """The least of some numbers: none if one is not known; NaN, which is worse than any, if one is NaN."""
    known = []
    for value in found:
        if value is None:
            return None
        known.append(value)
    if not known:
        return None
    return math.nan if any(map(math.isnan, known)) else min(known)


def of_converged(extreme: Callable[..., float], values: Iterable[float]) -> float:
    """The least or the largest of the runs that did not diverge; NaN if all did."""
    return extreme((value for value in values if not math.isnan(value)), default=math.nan)
