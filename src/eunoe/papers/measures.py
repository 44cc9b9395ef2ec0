"""Measures of a finished run: one number from the values recorded by round."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eunoe.analysis.statistics import mean_std

# Descriptions of the quantities that runs record.
QUANTITIES = {
    "accuracy": "test accuracy",
    "validation": "accuracy on the clients' validation data",
    "round_forgetting": "accuracy that a round takes from a class",
    "local_forgetting": "accuracy that local training takes from others' data",
    "own_gain": "accuracy that local training gains on a client's own data",
    "lost_locally": "accuracy on a class that local training takes",
    "lost_in_merge": "accuracy on a class that the merge takes",
    "local_loss_rise": "rise of the test loss in local training",
    "count_accuracy": "correlation of a class's accuracy with the client's label count",
    "count_probability": "correlation of a class's mean probability with the client's label count",
    "classes_per_client": "classes that a client has",
    "past": "accuracy on classes of earlier phases",
    "present": "accuracy on classes of the last phase",
    "phase_forgetting": "accuracy lost of each earlier phase's best, mean over phases",
    "megabytes_up": "megabytes that a client sends in a round",
    "personal_gain": "points of accuracy gained at the clients",
    "personal_without": "accuracy at the clients",
    "personal_with": "accuracy at the clients with their class shares",
}


@dataclass(frozen=True)
class Outcome:
    """What one run recorded: for each quantity its value by round, and whether it diverged.

    `config` is that of the exhibit: a run that was made shorter has recorded fewer rounds.
    """

    config: Mapping[str, Any]
    series: Mapping[str, Mapping[int, float]]
    diverged: bool = False

    @property
    def rounds(self) -> int:
        """The last recorded round, whether or not anything was measured in it."""
        return max((max(values, default=0) for values in self.series.values()), default=0)

    def of(self, quantity: str) -> dict[int, float]:
        """The values of a quantity by round, in order, without those that are not numbers."""
        known = self.series.get(quantity, {})
        return {round: known[round] for round in sorted(known) if not math.isnan(known[round])}


@dataclass(frozen=True)
class Measure:
    """A number computed from a run, its description, and its format.

    One that is `hidden` is in no table: a claim needs it. `until` is the last round that it looks at.
    """

    read: Callable[[Outcome], float]
    says: str
    unit: str = "accuracy"
    hidden: bool = False
    until: float = math.inf

    @property
    def digits(self) -> int:
        """Digits after the point."""
        return {"rounds": 0, "points": 1, "classes": 2}.get(self.unit, 3)

    def text(self, value: float) -> str:
        """The value as it is printed; infinity stands for a round that was not reached."""
        if math.isnan(value):
            return "not measured"
        return "not reached" if math.isinf(value) else f"{value:.{self.digits}f}"

    def mean_text(self, values: Sequence[float]) -> str:
        """The mean of values, and their standard deviation if there are several."""
        return mean_std(values, self.digits if len(values) == 1 else max(self.digits, 1))

    def signed(self, difference: float) -> str:
        """A difference of two values; of counted rounds it has a digit more where it is a mean."""
        digits = self.digits if difference.is_integer() else max(self.digits, 1)
        return f"{difference:+.{digits}f}"


def mean(values: Mapping[int, float]) -> float:
    """The mean over rounds; NaN if there are none."""
    return sum(values.values()) / len(values) if values else math.nan


def last_rounds(quantity: str, unit: str = "accuracy") -> Measure:
    """The mean over the last rounds, as many as `evaluation.last` of the config."""

    def read(outcome: Outcome) -> float:
        from eunoe.metrics.forgetting import mean_at_end

        values, last = outcome.of(quantity), outcome.config.get("evaluation", {}).get("last", 1)
        return mean_at_end(list(values.values()), list(values), last)

    return Measure(read, f"{QUANTITIES[quantity]}, mean of the last rounds", unit)


def at_end(quantity: str, unit: str = "accuracy") -> Measure:
    """The value of the last round."""

    def read(outcome: Outcome) -> float:
        values = outcome.of(quantity)
        return values[max(values)] if values else math.nan

    return Measure(read, QUANTITIES[quantity], unit)


def in_round(quantity: str, number: int) -> Measure:
    """The value of one round; NaN if it was not measured there."""

    def read(outcome: Outcome) -> float:
        return outcome.of(quantity).get(number, math.nan)

    return Measure(read, f"{QUANTITIES[quantity]}, in round {number}")


def at_planned_end(quantity: str) -> Measure:
    """The value of the last round; NaN for a run that was stopped before it."""

    def read(outcome: Outcome) -> float:
        return outcome.of(quantity).get(outcome.config["rounds"], math.nan)

    return Measure(read, f"{QUANTITIES[quantity]} of the last round")


def over_rounds(quantity: str, unit: str = "accuracy", first: int = 1, last: float = math.inf) -> Measure:
    """The mean over all measured rounds from `first` to `last` of a per-round quantity."""

    def read(outcome: Outcome) -> float:
        return mean({n: value for n, value in outcome.of(quantity).items() if first <= n <= last})

    return Measure(read, f"{QUANTITIES[quantity]}, mean over {_until(last)}", unit, until=last)


def fluctuation(quantity: str, last: float = math.inf) -> Measure:
    """The standard deviation over rounds."""

    def read(outcome: Outcome) -> float:
        values = [value for number, value in outcome.of(quantity).items() if number <= last]
        return statistics.stdev(values) if len(values) > 1 else math.nan

    says = f"{QUANTITIES[quantity]}, standard deviation over {_until(last)}"
    return Measure(read, says, until=last)


def _until(last: float) -> str:
    return "rounds" if math.isinf(last) else f"rounds up to {last}"


# Fewer rounds are no beginning of a curve.
FEWEST = 3


def height(quantity: str, share: float = 1.0, last: float = math.inf) -> Measure:
    """The mean height of a curve, or of its beginning, however densely it was measured in places.

    The beginning is a share of the planned rounds, three at least, or up to a round. A run that stopped
    within it has none, since it would be compared with the later rounds of others.
    """

    def read(outcome: Outcome) -> float:
        from eunoe.metrics.forgetting import area_under_curve

        until = last
        if share < 1:
            until = min(last, max(FEWEST, round(share * outcome.config["rounds"])))
        if until < math.inf and outcome.rounds < min(until, outcome.config["rounds"]):
            return math.nan
        values = {number: value for number, value in outcome.of(quantity).items() if number <= until}
        return area_under_curve(list(values.values()), list(values)) if values else math.nan

    over = _until(last) if share == 1 else f"the first 1/{round(1 / share)} of the rounds"
    says = f"{QUANTITIES[quantity]}, mean over {over} (area below its curve)"
    return Measure(read, says, until=last)


def rounds_to(target: float, quantity: str = "accuracy") -> Measure:
    """The first round whose accuracy reaches the target; infinity if none does."""

    def read(outcome: Outcome) -> float:
        from eunoe.metrics.forgetting import rounds_to_accuracy

        values = outcome.of(quantity)
        (found,) = rounds_to_accuracy(list(values.values()), list(values), [1.0], target)
        return math.inf if found is None else found

    return Measure(read, f"first round in which the {QUANTITIES[quantity]} is {target:.1%}", "rounds")


def drop_from_best() -> Measure:
    """How far the final accuracy is below the best one: a collapse shows as a large drop."""

    def read(outcome: Outcome) -> float:
        values = outcome.of("accuracy")
        return max(values.values()) - values[max(values)] if values else math.nan

    return Measure(read, "test accuracy at the end below the best")


def at_fraction(quantity: str, fraction: float, unit: str = "accuracy") -> Measure:
    """The value of the measured round nearest to this fraction of the run; NaN if it stopped before."""

    def read(outcome: Outcome) -> float:
        values, place = outcome.of(quantity), fraction * outcome.config["rounds"]
        if not values or outcome.rounds < place:
            return math.nan
        return values[min(values, key=lambda measured: abs(measured - place))]

    where = "last round" if fraction == 1 else f"round nearest to {fraction:.3g} of the run"
    return Measure(read, f"{QUANTITIES[quantity]}, in the {where}", unit)
