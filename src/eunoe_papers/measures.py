"""Measures: one number from the values that a run recorded by round."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from eunoe.analysis.statistics import mean_std
from eunoe.metrics.forgetting import area_under_curve, mean_at_end, rounds_to_accuracy
from eunoe_papers import read_table

# A measure of the beginning of a run takes at least this many rounds.
MIN_ROUNDS = 3


@dataclass(frozen=True)
class Outcome:
    """What a run recorded: each quantity by round, and whether the run diverged."""

    # As planned: a run that was stopped early has recorded fewer rounds.
    config: Mapping[str, Any]
    series: Mapping[str, Mapping[int, float]]
    diverged: bool = False

    @property
    def rounds(self) -> int:
        """The last recorded round, whether or not anything was measured in it."""
        return max((max(values, default=0) for values in self.series.values()), default=0)

    def of(self, quantity: str) -> dict[int, float]:
        """Return the known values of a quantity by round, in order."""
        values = self.series.get(quantity, {})
        return {round: values[round] for round in sorted(values) if not math.isnan(values[round])}


class Measure(BaseModel):
    """A number computed from a run.

    `first` and `last` bound the rounds, `share` is a share of the planned rounds from the start, `at` a
    fraction of the run or, for `in_round`, a round.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal[
        "last_rounds", "at_end", "at_planned_end", "in_round", "at_fraction", "over_rounds", "fluctuation",
        "height", "rounds_to", "drop",
    ]  # fmt: skip
    of: str = "accuracy"
    first: int = 1
    last: float = math.inf
    share: float = 1.0
    at: float = 1.0
    target: float = math.nan

    def read(self, outcome: Outcome) -> float:
        """Return the number; NaN if it was not measured, infinity if a target was not reached."""
        values = {n: value for n, value in outcome.of(self.of).items() if self.first <= n <= self.last}
        if self.kind == "rounds_to":
            (reached,) = rounds_to_accuracy(list(values.values()), list(values), [1.0], self.target)
            return math.inf if reached is None else reached
        if not values:
            return math.nan
        match self.kind:
            case "last_rounds":
                last = outcome.config.get("evaluation", {}).get("last", 1)
                return mean_at_end(list(values.values()), list(values), last)
            case "at_end":
                return values[max(values)]
            case "at_planned_end":
                return values.get(outcome.config["rounds"], math.nan)
            case "in_round":
                return values.get(int(self.at), math.nan)
            case "at_fraction":
                place = self.at * outcome.config["rounds"]
                nearest = min(values, key=lambda measured: abs(measured - place))
                return values[nearest] if outcome.rounds >= place else math.nan
            case "over_rounds":
                return sum(values.values()) / len(values)
            case "fluctuation":
                return statistics.stdev(values.values()) if len(values) > 1 else math.nan
            case "height":
                return self._height(outcome, values)
            case "drop":
                return max(values.values()) - values[max(values)]

    def _height(self, outcome: Outcome, values: Mapping[int, float]) -> float:
        """Return the mean height of the curve; NaN for a run that stopped before `share` or `last`."""
        planned, until = outcome.config["rounds"], self.last
        if self.share < 1:
            until = min(until, max(MIN_ROUNDS, round(self.share * planned)))
        if until < math.inf and outcome.rounds < min(until, planned):
            return math.nan
        early = {number: value for number, value in values.items() if number <= until}
        return area_under_curve(list(early.values()), list(early)) if early else math.nan

    @property
    def unit(self) -> str:
        """The unit of the number."""
        return "rounds" if self.kind == "rounds_to" else read_table("measures")["quantities"][self.of][1]

    @property
    def description(self) -> str:
        """The measure in words."""
        rounds = "rounds" if math.isinf(self.last) else f"rounds up to {self.last:.0f}"
        start = rounds if self.share == 1 else f"the first 1/{round(1 / self.share)} of the rounds"
        where = "last round" if self.at == 1 else f"round nearest to {self.at:.3g} of the run"
        words = {"quantity": read_table("measures")["quantities"][self.of][0], "rounds": rounds}
        text: str = read_table("measures")["kinds"][self.kind]
        return text.format(start=start, where=where, at=self.at, target=self.target, **words)

    @property
    def digits(self) -> int:
        """Digits after the point."""
        return {"rounds": 0, "points": 1, "classes": 2}.get(self.unit, 3)

    def text(self, value: float) -> str:
        """Format a value; infinity stands for a round that was not reached."""
        if math.isnan(value):
            return "not measured"
        return "not reached" if math.isinf(value) else f"{value:.{self.digits}f}"

    def mean_text(self, values: Sequence[float]) -> str:
        """Format the mean of values and, for several, their standard deviation."""
        return mean_std(values, self.digits if len(values) == 1 else max(self.digits, 1))

    def signed(self, difference: float) -> str:
        """Format a difference; one of rounds gets another digit where it is a mean."""
        digits = self.digits if difference.is_integer() else max(self.digits, 1)
        return f"{difference:+.{digits}f}"
