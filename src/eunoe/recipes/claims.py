"""A paper's claim as a number for each seed, positive where it holds, and the verdict over the seeds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Values = Mapping[str, float]


class NotReached(float):
    """The round after the last, of a run that did not get to its target."""


class AtLeast(NotReached):
    """What a run that stopped early leaves open: a number that would have become this or more."""


# Student's t at 97.5% by degrees of freedom; beyond ten the value for ten is kept, which is a little wide.
_T = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclass(frozen=True)
class Claim:
    """A sentence, and the statistic that is positive if it holds: from the values of one seed's runs.

    `speaks_of` are the methods that the sentence is about, where the statistic takes those that were run.
    """

    sentence: str
    statistic: Callable[[Values], float]
    unit: str = "points"
    speaks_of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What the seeds say about a claim: the mean of its statistic with a 95% interval, paired by seed."""

    claim: Claim
    by_seed: tuple[float, ...]
    mean: float
    low: float
    high: float
    diverged: int = 0

    @property
    def seen(self) -> bool | None:
        """Whether the whole interval is on the claim's side and no seed diverged; None if untested."""
        return None if math.isnan(self.low) else self.low > 0 and not self.diverged

    def text(self) -> str:
        """The verdict in a line."""
        scale = 100 if self.claim.unit == "points" else 1
        lost = f" and {self.diverged} that diverged" if self.diverged else ""
        if self.seen is None:
            found = f"{self.mean * scale:+.2f} {self.claim.unit}, " if not math.isnan(self.mean) else ""
            count = len(self.by_seed)
            return f"not tested ({found}{_seeds(count)}{lost}; at least 2 are needed)"
        numbers = (
            f"{self.mean * scale:+.2f} {self.claim.unit} [{self.low * scale:+.2f}, {self.high * scale:+.2f}]"
        )
        return f"{'seen' if self.seen else 'not seen'}: {numbers}, {_seeds(len(self.by_seed))}{lost}"


def judge(claim: Claim, seeds: Sequence[Values]) -> Verdict:
    """The verdict from each seed's values by label; seeds that lack a run of the claim are left out.

    A seed of which nothing but a diverged run is left to compare counts against the claim.
    """
    found, diverged = [], 0
    for values in seeds:
        try:
            statistic = claim.statistic(values)
        except KeyError:
            continue
        if math.isnan(statistic):
            diverged += 1
        else:
            found.append(statistic)
    return Verdict(claim, tuple(found), *interval(found), diverged)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95% confidence interval of a few numbers (Student's t)."""
    n = len(values)
    centre = sum(values) / n if n else math.nan
    if n < 2:
        return centre, math.nan, math.nan
    deviation = math.sqrt(sum((value - centre) ** 2 for value in values) / (n - 1))
    half = _T[min(n, len(_T)) - 1] * deviation / math.sqrt(n)
    return centre, centre - half, centre + half


def pairs(values: Values, better: str, base: str) -> list[tuple[float, float]]:
    """The values of one column beside those of another, for all rows that have both and did not diverge."""
    rows = [label.removesuffix(better) for label in values if _in_column(label, better)]
    both = [(values[row + better], values[row + base]) for row in rows if row + base in values]
    if not both:
        raise KeyError(f"{better} beside {base}")
    return [pair for pair in both if not any(map(math.isnan, pair))]


def mean_gain(better: str, base: str) -> Callable[[Values], float]:
    """How much higher one column is than another, on average over the rows that have both."""

    def statistic(values: Values) -> float:
        both = pairs(values, better, base)
        return sum(high - low for high, low in both) / len(both) if both else math.nan

    return statistic


def mean_loss(better: str, base: str) -> Callable[[Values], float]:
    """How much lower one column is than another, on average over the rows that have both."""
    gain = mean_gain(better, base)
    return lambda values: -gain(values)


def best_gain(better: str, base: str) -> Callable[[Values], float]:
    """How much higher the best row of one column is than that of another, averaged over the data sets.

    Rows that diverged are nobody's best; a column of nothing else has none.
    """

    def statistic(values: Values) -> float:
        gains = []
        for data in sorted({label.split()[0] for label in values}):
            mine = {label: value for label, value in values.items() if label.split()[0] == data}
            high = [value for label, value in mine.items() if _in_column(label, better)]
            low = [value for label, value in mine.items() if _in_column(label, base)]
            if high and low:
                gains.append(of_converged(max, high) - of_converged(max, low))
        if not gains:
            raise KeyError(f"{better} beside {base}")
        return sum(gains) / len(gains)

    return statistic


def lowest(mine: str, others: Sequence[str]) -> Callable[[Values], float]:
    """How far one value is below the least of the others that were run."""

    def statistic(values: Values) -> float:
        if isinstance(values[mine], AtLeast):
            raise KeyError(f"{mine} is not known yet")
        rest = _present(values, others)
        if all(isinstance(value, NotReached) for value in (values[mine], *rest)):
            raise KeyError("nobody got there")
        return of_converged(min, rest) - values[mine]

    return statistic


def highest(mine: str, others: Sequence[str]) -> Callable[[Values], float]:
    """How far one value is above the largest of the others that were run."""

    def statistic(values: Values) -> float:
        return values[mine] - of_converged(max, _present(values, others))

    return statistic


def _present(values: Values, labels: Sequence[str]) -> list[float]:
    found = [values[label] for label in labels if label in values]
    if not found:
        raise KeyError("nothing to compare with")
    return found


def of_converged(extreme: Callable[..., float], values: Sequence[float]) -> float:
    """The least or the largest of the runs that did not diverge; NaN if all did."""
    return extreme((value for value in values if not math.isnan(value)), default=math.nan)


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count != 1)}"


def _in_column(label: str, column: str) -> bool:
    return label == column or label.endswith(f" {column}")
