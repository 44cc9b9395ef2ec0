"""Claims of a paper: a sentence, and the statistic that is positive in a seed where it holds.

A claim compares arms row by row. A row has all cells that differ only in the parts that the selectors name:
`better = "fedavg+wsm", than = "fedavg"` is compared for each data set and learning rate that has both.

    above        how far the better arm is above the best of its rivals (below, with `lower`)
    gains_more   how much more the first pair gains than each of the others
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

Part = str | int | float


@dataclass(frozen=True)
class Label:
    """What sets an arm apart: the data set, a setting, the method; of a table's cell also the measure."""

    parts: tuple[tuple[str, Part], ...]

    def __str__(self) -> str:
        """Format the parts: text as it is, a number with the name of its option."""
        return " ".join(v if isinstance(v, str) else f"{name}={v}" for name, v in self.parts)

    def get(self, name: str) -> Part:
        """Return a part; empty if there is none of this name."""
        return dict(self.parts).get(name, "")

    def matches(self, parts: Mapping[str, Any]) -> bool:
        """Return whether each part has the given value, or one of a list of values."""
        return all(self.get(name) in (v if isinstance(v, list) else [v]) for name, v in parts.items())

    def replace(self, **parts: Part) -> "Label":
        """Return the label with other parts; an empty one is left out, a new one comes last."""
        return label(**{**dict(self.parts), **parts})


def label(**parts: Part) -> Label:
    """Return a label with these parts, without those that are empty."""
    return Label(tuple((name, value) for name, value in parts.items() if value != ""))


# The value of each cell of an experiment for one seed.
Values = Mapping[Label, float]
# The measure by which the best learning rate is chosen.
VALIDATION = "validation"
# How many points from the best the TCE paper looks for learning rates.
NEAR = (2, 3, 5)
Selector = dict[str, Part]


class Pair(BaseModel):
    """Arms that should be ahead, and their rivals; without rivals the value itself is the statistic."""

    model_config = ConfigDict(frozen=True)

    better: tuple[Selector, ...]
    rivals: tuple[Selector, ...]


@dataclass(frozen=True)
class Comparison:
    """The statistic of a claim in one seed, and the cells that it compares."""

    value: float
    cells: frozenset[Label]


class Claim(BaseModel):
    """A claim, as an experiment's TOML file states it.

    `where` keeps cells with these parts; `rates` takes each method at its best learning rate, or counts its
    learning rates near the best, by points or relative to it. `rows` says whether the least or the mean gain
    over rows counts. `needs` are rivals of which a row must have one. `margin` is added to the statistic.
    With `within` the claim is that the difference is smaller than this. `spread` compares distances from the
    median over seeds. `chosen_on` has, by scale, the seeds on which a setting or the claim itself was chosen.
    `counted` is false for a claim that the paper does not make, that follows from the setting or that
    repeats another.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sentence: str
    kind: Literal["above", "gains_more"] = "above"
    pairs: tuple[Pair, ...]
    measure: str = ""
    lower: bool = False
    rows: Literal["least", "mean"] = "least"
    rates: Literal["", "best", "near", "relative"] = ""
    where: dict[str, Any] = {}
    needs: tuple[str, ...] = ()
    margin: float = 0.0
    within: float | None = None
    unit: str = "points"
    spread: bool = False
    chosen_on: dict[str, tuple[int, ...]] = {}
    counted: bool = True

    @model_validator(mode="before")
    @classmethod
    def _read_pairs(cls, fields: Any) -> Any:
        """Read `better` and `than`, or `pairs` with the rivals after the better arm."""
        if not isinstance(fields, dict):
            return fields
        rest = {key: value for key, value in fields.items() if key not in ("better", "than", "pairs")}
        listed = fields.get("pairs") or [[fields["better"], *_as_list(fields.get("than", []))]]
        pairs = [Pair(better=tuple(_selectors(one)), rivals=tuple(_selectors(rest))) for one, *rest in listed]
        return {**rest, "pairs": pairs}

    def compare(self, values: Values) -> Comparison | None:
        """Compare the arms in one seed; None if one is missing, NaN if one that should be ahead diverged."""
        kept = {cell: value for cell, value in values.items() if cell.matches(self.where)}
        sources: dict[Label, set[Label]] = {cell: {cell} for cell in kept}
        if self.rates:
            kept, sources = _by_rate(kept, self.rates)
        results = [self._compare_pair(pair, kept) for pair in self.pairs]
        if self.kind == "above":
            # A pair that was not run is left out.
            ran = [result for result in results if result is not _ABSENT]
            if not ran or any(result.value is None for result in ran):
                return None
            value = _least(result.value for result in ran if result.value is not None)
        else:
            ran = [result for result in results if result.value is not None]
            first, others = results[0].value, [r.value for r in results[1:] if r.value is not None]
            if first is None or not others:
                return None
            most = max((other for other in others if not math.isnan(other)), default=math.nan)
            if math.isnan(most) and not math.isnan(first):
                return None
            value = first - most
        return Comparison(value, frozenset(c for each in ran for cell in each.cells for c in sources[cell]))

    def _compare_pair(self, pair: Pair, values: Values) -> "_Result":
        """Compare a pair over all rows that have both sides."""
        names = {name for selector in (*pair.better, *pair.rivals) for name in selector} | {"measure"}
        betters = [_rows_of(values, self._complete(selector, names)) for selector in pair.better]
        rivals = [_rows_of(values, self._complete(selector, names)) for selector in pair.rivals]
        needed = [_rows_of(values, self._complete({"method": name}, names)) for name in self.needs]
        if rivals and not (any(rivals) and any(betters)):
            return _ABSENT
        gains, cells, both_diverged = [], [], False
        for row in betters[0]:
            ahead = [cells_of[row] for cells_of in betters if row in cells_of]
            behind = [cells_of[row] for cells_of in rivals if row in cells_of]
            # The best of several is known where all of them, and all rivals, were run.
            complete = len(betters) == 1 or (len(ahead), len(behind)) == (len(betters), len(rivals))
            if not complete or (rivals and not behind) or (needed and not any(row in n for n in needed)):
                continue
            high, low = self._best(values, ahead), self._best(values, behind) if rivals else 0.0
            if math.isnan(low):
                both_diverged |= math.isnan(high)
                continue
            gains.append((low - high if self.lower else high - low) + self.margin)
            cells += ahead + behind
        if not gains:
            return _Result(math.nan if both_diverged else None, cells)
        return _Result(_least(gains) if self.rows == "least" else sum(gains) / len(gains), cells)

    def _complete(self, selector: Selector, names: Iterable[str]) -> Selector:
        return {name: selector.get(name, self.measure if name == "measure" else "") for name in names}

    def _best(self, values: Values, cells: Sequence[Label]) -> float:
        """Return the best value of the runs that did not diverge; NaN if all did."""
        converged = [values[cell] for cell in cells if not math.isnan(values[cell])]
        return (min if self.lower else max)(converged, default=math.nan)


@dataclass(frozen=True)
class _Result:
    value: float | None
    cells: list[Label]


_ABSENT = _Result(None, [])


def near_best(values: Values, margin: float, relative: bool = False) -> dict[Label, list[float]]:
    """Return, by method and data set, the learning rates whose value is within a margin of the best."""
    by_row: dict[Label, dict[float, float]] = {}
    for cell, value in values.items():
        if cell.matches({"measure": ""}) and not math.isnan(value):
            by_row.setdefault(cell.replace(lr=""), {})[float(cell.get("lr"))] = value
    # A difference of exactly the margin counts in the paper, which prints three digits.
    return {
        row: [
            rate
            for rate, value in rates.items()
            if value >= max(rates.values()) - margin * (max(rates.values()) if relative else 1) - 1e-9
        ]
        for row, rates in by_row.items()
    }


def _by_rate(values: Values, rates: str) -> tuple[dict[Label, float], dict[Label, set[Label]]]:
    """Return values without the learning rate, and for each the cells that it comes from."""
    groups: dict[Label, list[Label]] = {}
    for cell in values:
        if cell.matches({"measure": ""}):
            groups.setdefault(cell.replace(lr=""), []).append(cell)
    if rates == "best":
        best = {row: _best_rate(values, cells) for row, cells in groups.items()}
        return best, {row: set(cells) for row, cells in groups.items()}
    if len({cell.get("lr") for cells in groups.values() for cell in cells}) < 2:
        return {}, {}
    counts, sources = {}, {}
    for points in NEAR:
        for row, near in near_best(values, points / 100, rates == "relative").items():
            counts[row.replace(points=points)] = float(len(near))
            sources[row.replace(points=points)] = set(groups[row])
    return counts, sources


def _best_rate(values: Values, cells: Sequence[Label]) -> float:
    """Return the value at the best learning rate on validation data; without those, the highest value."""
    by_validation = {cell: cell.replace(measure=VALIDATION) for cell in cells if not math.isnan(values[cell])}
    if by_validation and all(other in values for other in by_validation.values()):
        return values[max(by_validation, key=lambda cell: values[by_validation[cell]])]
    return max((values[cell] for cell in by_validation), default=math.nan)


def _rows_of(values: Values, selector: Selector) -> dict[Label, Label]:
    """Return the cells with exactly these parts, by their row."""
    blank = dict.fromkeys(selector, "")
    return {cell.replace(**blank): cell for cell in values if cell.matches(selector)}


def _least(values: Iterable[float]) -> float:
    """Return the least value; NaN, which is worse than any, if one is NaN."""
    known = list(values)
    return math.nan if any(map(math.isnan, known)) else min(known)


def _selectors(items: Any) -> list[Selector]:
    """Read selectors: a text is a method, a table has parts."""
    return [{"method": item} if isinstance(item, str) else dict(item) for item in _as_list(items)]


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
