"""What of a cure fits a budget: how many remedies are searched over, on how many seeds, for how many rounds.

The seconds of a round are those that the run itself took. The plan is made once and then kept, so that its
results do not depend on how long anything takes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eunoe.engines.base import cores
from eunoe.errors import InputError
from eunoe.records.reader import RunRecords
from eunoe.runs.budget import written
from eunoe.runs.halving import rungs_of

# Fewer candidates are no search.
LEAST = 4
# Candidates that are worth more than a further seed.
SOME = 8
# Longer than by the measured speed: a search that is cut short has judged by few rounds.
SLACK = 1.3


@dataclass(frozen=True)
class Speed:
    """Seconds of one run: to begin it, and of a round's training and evaluation on one core."""

    start: float
    train: float
    evaluate: float

    def of(self, rounds: int, cost: float = 1.0) -> float:
        """Seconds of so many rounds."""
        return self.start + rounds * (self.train * cost + self.evaluate)


def measured(run: RunRecords, start: float) -> Speed:
    """The speed of a run's rounds; what several processes did at once is done by one."""
    config = run.checked_config
    together = 1
    if config.engine.name == "process":
        workers = int(config.engine.options.get("workers") or cores())
        taking = max((len(record.get("clients", ())) for record in run.metrics), default=1)
        together = max(1, min(workers, taking))
    timings = run.timings
    if not timings:
        seconds = float(run.status.get("seconds", 0.0)) / max(1, len(run.metrics))
        return Speed(start, together * seconds, 0.0)
    train, evaluate = (
        float(np.mean([timing.get(key) or 0.0 for timing in timings])) for key in ("train", "evaluate")
    )
    return Speed(start, together * train, together * evaluate)


@dataclass(frozen=True)
class CurePlan:
    """How many of the candidates are searched over, on how many seeds, and for how long at most."""

    candidates: int
    seeds: int
    seconds: float


def make_plan(
    costs: Sequence[float], rounds: int, speed: Speed, budget: float, fresh: int, jobs: int
) -> CurePlan:
    """The largest search that fits half of the budget and what the runs on fresh seeds leave of it."""

    def search(count: int, seeds: int) -> float:
        seconds, left, before = 0.0, sorted(costs[:count]), 0
        for rung in rungs_of(rounds):
            mean = float(np.mean(left))
            seconds += math.ceil(len(left) * seeds / jobs) * speed.of(rung - before, mean)
            # The dearer ones may be the better ones.
            left, before = left[len(left) // 2 :], rung
        return SLACK * seconds

    if len(costs) < 2:
        raise InputError("no remedy fits this run: what could be tried is refused in its setting")
    least = min(LEAST, len(costs))
    confirm = SLACK * math.ceil(2 * fresh / jobs) * speed.of(rounds)
    needed = confirm + search(least, 1)
    if needed > budget:
        raise InputError(
            f"a budget of {written(budget)} cannot hold {fresh} runs each of baseline and cure and a search: "
            f"give --budget {written(needed)}"
        )
    planned = min(budget / 2, budget - confirm)
    # On a machine that is slower than it was, the search may use what the runs on fresh seeds leave.
    seconds = budget - confirm
    count = len(costs)
    for seeds in (3, 2):
        if search(count, seeds) <= planned:
            return CurePlan(count, seeds, seconds)
    for seeds, fewest in ((2, SOME), (1, least)):
        for count in range(len(costs), fewest - 1, -1):
            if search(count, seeds) <= planned:
                return CurePlan(count, seeds, seconds)
    return CurePlan(least, 1, seconds)
