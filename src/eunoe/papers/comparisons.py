"""The statistics of claims: one value above another, a method above others in every row."""

import math
from collections.abc import Iterable, Sequence

from eunoe.papers.claims import AtLeast, Censored, NotReached, Statistic, Tie, Values, least, of_converged
from eunoe.papers.keys import Key


def apart(high: float, low: float) -> float | None:
    """How far one number is above another.

    NaN, which counts against a claim, if the first run diverged; none if only the second did, since by how
    much the first is ahead is then not known.
    """
    return None if math.isnan(low) and not math.isnan(high) else high - low


def above(high: Key, low: Key) -> Statistic:
    """How far one value is above another."""
    return lambda values: apart(values[high], values[low]) if high in values and low in values else None


def gains_more(first: tuple[Key, Key], second: tuple[Key, Key]) -> Statistic:
    """How much further apart two values are, high and low, than two others."""

    def statistic(values: Values) -> float | None:
        many, few = above(*first)(values), above(*second)(values)
        return None if many is None or few is None else many - few

    return statistic


def exceeds(cell: Key, bound: float = 0.0) -> Statistic:
    """How far a value is above a bound."""
    return lambda values: values[cell] - bound if cell in values else None


def stays_below(cell: Key, bound: float) -> Statistic:
    """How far a value is below a bound."""
    return lambda values: bound - values[cell] if cell in values else None


def gains(values: Values, better: str, base: str, measure: str = "") -> list[float]:
    """How much higher one method is than another, for each row that has both; empty if none has.

    A row whose base diverged is left out; one where only the better diverged is NaN, as is the result if
    both did in every row.
    """
    mine = (cell for cell in values if cell.has(method=better, measure=measure))
    both = [(values[cell], values[cell.but(method=base)]) for cell in mine if cell.but(method=base) in values]
    found = [high - low for high, low in both if not math.isnan(low)]
    return found or [math.nan] * (bool(both) and all(math.isnan(high) for high, _ in both))


def mean_gain(better: str, base: str, measure: str = "") -> Statistic:
    """How much higher one method is than another, on average over the rows that have both."""

    def statistic(values: Values) -> float | None:
        found = gains(values, better, base, measure)
        return sum(found) / len(found) if found else None

    return statistic


def mean_loss(better: str, base: str, measure: str = "") -> Statistic:
    """How much lower one method is than another, on average over the rows that have both."""
    gain = mean_gain(better, base, measure)

    def statistic(values: Values) -> float | None:
        found = gain(values)
        return None if found is None else -found

    return statistic


def least_gain(better: str, base: str) -> Statistic:
    """How much higher one method is than another, in the row with the smallest gap."""
    return lambda values: least(gains(values, better, base))


def best_gain(better: str, base: str, data: Sequence[str] = ()) -> Statistic:
    """How much higher the best row of one method is than that of another, on the data with the smallest gap.

    The best row is the one with the highest accuracy on validation data, where that was measured. `data` are
    the data sets that count, all if empty. Rows that diverged are never the best; a method with no other rows
    has none.
    """

    def statistic(values: Values) -> float | None:
        found = []
        for name in sorted({str(cell.get("data")) for cell in values}):
            high, low = (
                [cell for cell in values if cell.has(data=name, method=method, measure="")]
                for method in (better, base)
            )
            if high and low and (not data or name in data):
                found.append(apart(best_of(values, high), best_of(values, low)))
        return least(found)

    return statistic


# What the best row of a table is chosen by.
VALIDATION = "validation"


def best_of(values: Values, rows: Sequence[Key]) -> float:
    """The value of the row that does best on validation data, or else of the highest; NaN if all diverged."""
    judged = {row: row.but(measure=VALIDATION) for row in rows if not math.isnan(values[row])}
    if judged and all(cell in values for cell in judged.values()):
        return values[max(judged, key=lambda row: values[judged[row]])]
    return max((values[row] for row in judged), default=math.nan)


def above_all(method: str) -> Statistic:
    """How far one method is above the best of the others in its row, in the row with the smallest gap."""

    def statistic(values: Values) -> float | None:
        found = []
        for mine in (cell for cell in values if cell.has(method=method, measure="")):
            row = mine.but(method="")
            others = [values[cell] for cell in values if cell != mine and cell.but(method="") == row]
            if others:
                found.append(apart(values[mine], of_converged(max, others)))
        return least(found)

    return statistic


def saved(mine: float, nearest: float) -> float | None:
    """How many rounds one needs less than another.

    A tie if no run reached the target; none if one that stopped early leaves the winner open.
    """
    if isinstance(mine, AtLeast) or (isinstance(nearest, AtLeast) and nearest <= mine):
        return None
    if isinstance(nearest, NotReached) and isinstance(mine, NotReached):
        return Tie()
    if math.isnan(nearest) and not math.isnan(mine):
        return None
    open_ended = isinstance(nearest, NotReached) or isinstance(mine, NotReached)
    return Censored(nearest - mine) if open_ended else nearest - mine


def lowest(mine: Key, others: Iterable[Key]) -> Statistic:
    """How far one value is below the least of the others that were run."""
    others = tuple(others)

    def statistic(values: Values) -> float | None:
        rest = [values[other] for other in others if other in values]
        return saved(values[mine], of_converged(min, rest)) if mine in values and rest else None

    return statistic


def highest(mine: Key, others: Iterable[Key]) -> Statistic:
    """How far one value is above the largest of the others that were run."""
    others = tuple(others)

    def statistic(values: Values) -> float | None:
        rest = [values[other] for other in others if other in values]
        return apart(values[mine], of_converged(max, rest)) if mine in values and rest else None

    return statistic
