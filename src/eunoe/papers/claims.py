"""A paper's claim as a number for each seed, positive where it holds, and the verdict over the seeds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Values = Mapping[str, float]
Statistic = Callable[[Values], float]


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
    statistic: Statistic
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
        """Whether the whole interval is on the claim's side and no seed diverged; None below two seeds."""
        return self.low > 0 and not self.diverged if len(self.by_seed) + self.diverged > 1 else None

    def text(self) -> str:
        """The verdict in a line."""
        if not self.by_seed and not self.diverged:
            return "not tested: what it compares was not run, or nobody got there"
        scale, unit = 100 if self.claim.unit == "points" else 1, self.claim.unit
        found = [f"{self.mean * scale:+.2f} {unit}"] if self.by_seed else []
        if not math.isnan(self.low):
            found[0] += f" [{self.low * scale:+.2f}, {self.high * scale:+.2f}]"
        found += [_seeds(len(self.by_seed))] if self.by_seed else []
        found += [f"{_seeds(self.diverged)} diverged"] if self.diverged else []
        if self.seen is not None:
            return f"{'seen' if self.seen else 'not seen'}: {', '.join(found)}"
        holds = "holds" if self.mean > 0 else "does not hold"
        return f"{holds} in the one seed, and two are needed to test it: {found[0]}"


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
    center = sum(values) / n if n else math.nan
    if n < 2:
        return center, math.nan, math.nan
    deviation = math.sqrt(sum((value - center) ** 2 for value in values) / (n - 1))
    half = _T[min(n, len(_T)) - 1] * deviation / math.sqrt(n)
    return center, center - half, center + half


def gains(values: Values, better: str, base: str) -> list[float]:
    """How much higher one column is than another, for each row that has both.

    A row whose base diverged has nothing to be compared with and is left out; one where only the better
    diverged is not a number, as is what is left if there is no other.
    """
    rows = [label.removesuffix(better) for label in values if _in_column(label, better)]
    both = [(values[row + better], values[row + base]) for row in rows if row + base in values]
    if not both:
        raise KeyError(f"{better} beside {base}")
    return [high - low for high, low in both if not math.isnan(low)] or [math.nan]


def least(found: Sequence[float]) -> float:
    """The least of some numbers; not a number if one of them is none, which is worse than any."""
    return math.nan if any(map(math.isnan, found)) else min(found)


def mean_gain(better: str, base: str) -> Statistic:
    """How much higher one column is than another, on average over the rows that have both."""

    def statistic(values: Values) -> float:
        found = gains(values, better, base)
        return sum(found) / len(found)

    return statistic


def mean_loss(better: str, base: str) -> Statistic:
    """How much lower one column is than another, on average over the rows that have both."""
    gain = mean_gain(better, base)
    return lambda values: -gain(values)


def least_gain(better: str, base: str) -> Statistic:
    """How much higher one column is than another, in the row where it is so least."""
    return lambda values: least(gains(values, better, base))


def best_gain(better: str, base: str, data: Sequence[str] = ()) -> Statistic:
    """How much higher the best row of one column is than that of another, on the data where it is so least.

    `data` are the data sets that count, all if empty. Rows that diverged are nobody's best; a column of
    nothing else has none.
    """

    def statistic(values: Values) -> float:
        found = []
        for name in sorted({label.split()[0] for label in values}):
            mine = {label: value for label, value in values.items() if label.split()[0] == name}
            high = [value for label, value in mine.items() if _in_column(label, better)]
            low = [value for label, value in mine.items() if _in_column(label, base)]
            if high and low and (not data or name in data):
                found.append(of_converged(max, high) - of_converged(max, low))
        if not found:
            raise KeyError(f"{better} beside {base}")
        return least(found)

    return statistic


def above_all(column: str) -> Statistic:
    """How far one column is above the best of the others of its row, in the row where it is so least."""

    def statistic(values: Values) -> float:
        found = []
        for row in [label.removesuffix(column) for label in values if _in_column(label, column)]:
            others = [
                value
                for label, value in values.items()
                if label.startswith(row) and label != row + column and " " not in label.removeprefix(row)
            ]
            if others:
                found.append(values[row + column] - of_converged(max, others))
        if not found:
            raise KeyError(f"{column} beside others")
        return least(found)

    return statistic


def lowest(mine: str, others: Sequence[str]) -> Statistic:
    """How far one value is below the least of the others that were run."""

    def statistic(values: Values) -> float:
        if isinstance(values[mine], AtLeast):
            raise KeyError(f"{mine} is not known yet")
        rest = _present(values, others)
        if all(isinstance(value, NotReached) for value in (values[mine], *rest)):
            raise KeyError("nobody got there")
        nearest = of_converged(min, rest)
        if isinstance(nearest, AtLeast) and nearest <= values[mine]:
            raise KeyError("the nearest is not known yet")
        return nearest - values[mine]

    return statistic


def highest(mine: str, others: Sequence[str]) -> Statistic:
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
