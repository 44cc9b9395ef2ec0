"""What of a cure fits a budget: how many remedies are searched over, on how many seeds, for how many rounds.

The seconds of a round are those that the run itself took. The plan is made once and then kept, so that which
trials there are does not depend on how long anything takes. The search ends before its plan does if the
machine turns out so slow that nothing would be left for the runs on fresh seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eunoe.errors import InputError
from eunoe.search.budget import Clock, written
from eunoe.search.halving import rungs_of
from eunoe.store.run_records import RunRecords
from eunoe.system.machine import cores

# Fewer candidates are no search.
LEAST = 4
# Candidates that are worth more than a further seed.
SOME = 6
MOST_SEEDS = 5
# Fresh seeds that a cure is judged on: at least so many, and more where there is time, up to so many.
FRESH, MOST_FRESH = 5, 20
# Longer than by the measured speed: a judgment that is cut short is none.
SLACK = 1.2
# What the search may take of the budget however slow the machine is.
ALWAYS = 0.35
# Rounds after which the speed of a search is known.
KNOWN = 20


@dataclass(frozen=True)
class Speed:
    """Seconds on one core: to begin a run, of a round's training, and to evaluate a model on each part."""

    start: float
    train: float
    validate: float
    test: float


def measured(run: RunRecords, start: float, validation: float) -> Speed:
    """The speed of a run's rounds; what several processes did at once is done by one.

    `validation` is the share of the evaluated samples that are the clients' validation parts.
    """
    config = run.checked_config
    together = 1
    if config.engine.name == "process":
        workers = int(config.engine.options.get("workers") or cores())
        taking = max((len(record.get("clients", ())) for record in run.metrics), default=1)
        together = max(1, min(workers, taking))
    timings = run.timings
    if not timings:
        seconds = float(run.status.get("seconds", 0.0)) / max(1, len(run.metrics))
        return Speed(start, together * seconds, 0.0, 0.0)
    train = float(np.mean([timing.get("train") or 0.0 for timing in timings]))
    evaluations = [timing["evaluate"] for timing in timings if timing.get("evaluate")]
    models = 1 if config.averaging is None else 2
    evaluate = float(np.mean(evaluations)) / models if evaluations else 0.0
    return Speed(
        start,
        together * train,
        together * evaluate * validation,
        together * evaluate * (1 - validation),
    )


@dataclass(frozen=True)
class Work:
    """What a cure is made of: rounds of a run, evaluations of a stage and of a run on a fresh seed."""

    rounds: int
    stage_evaluations: int
    run_evaluations: int
    fresh: int
    jobs: int

    def search(self, costs: Sequence[float], seeds: int, speed: Speed) -> tuple[float, int]:
        """Seconds of a search and its rounds; each trial has two models, the newest and the mean."""
        seconds, total, left, before = 0.0, 0, sorted(costs), 0
        for rung in rungs_of(self.rounds):
            evaluations = min(self.stage_evaluations, rung - before)
            train = (rung - before) * float(np.mean(left)) * speed.train
            one = speed.start + train + 2 * evaluations * speed.validate
            seconds += math.ceil(len(left) * seeds / self.jobs) * one
            total += len(left) * seeds * (rung - before)
            # The dearer ones may be the better ones, and the run as it is goes on beside the best.
            left, before = left[min(len(left) // 2, max(0, len(left) - 2)) :], rung
        return seconds, total

    def confirm(self, speed: Speed, arms: int = 2, cost: float = 1.0) -> float:
        """Seconds of the runs on fresh seeds: as it is with one model to evaluate, the remedy with two.

        Of a remedy that is averaging alone, its own runs show the run as it is: one arm. `cost` is that of
        the remedy's local training.
        """
        models, cost = (1.5, (1 + cost) / 2) if arms == 2 else (2.0, cost)
        evaluations = models * self.run_evaluations * (speed.validate + speed.test)
        run = speed.start + self.rounds * cost * speed.train + evaluations
        return math.ceil(arms * self.fresh / self.jobs) * run

    def seeds_within(self, seconds: float, speed: Speed, arms: int, cost: float) -> int:
        """As many fresh seeds as these seconds hold, but no fewer than planned."""
        counts = range(self.fresh, MOST_FRESH + 1)
        fit = [n for n in counts if SLACK * replace(self, fresh=n).confirm(speed, arms, cost) <= seconds]
        return max(fit, default=self.fresh)


@dataclass(frozen=True)
class CurePlan:
    """How many of the candidates are searched over and on how many seeds; on none if no search fits.

    `rate` is the planned seconds of a round of the search, `confirm` those of all runs on fresh seeds.
    `needed` is the least budget with a search.
    """

    candidates: int
    seeds: int
    rate: float
    confirm: float
    needed: float


def make_plan(
    costs: Sequence[float], work: Work, speed: Speed, budget: float, averages: bool = False
) -> CurePlan:
    """The largest search that fits half of the budget and what the runs on fresh seeds leave of it.

    If there is none, averaging alone is left to judge, unless the run averages already.
    """
    if len(costs) < 2:
        raise InputError("no remedy fits this run: what could be tried is refused in its setting")
    least, confirm = min(LEAST, len(costs)), work.confirm(speed)
    needed = SLACK * (confirm + work.search(costs[:least], 1, speed)[0])
    alone = work.confirm(speed, arms=1)
    if needed > budget >= SLACK * alone and not averages:
        return CurePlan(1, 0, 0.0, alone, needed)
    if needed > budget:
        raise InputError(
            f"a budget of {written(budget)} cannot hold {work.fresh} runs each of baseline and cure and a "
            f"search: give --budget {written(needed)}"
        )
    available = min(budget / 2, budget - SLACK * confirm)
    tried = [(len(costs), seeds) for seeds in range(MOST_SEEDS, 1, -1)]
    tried += [(count, 2) for count in range(len(costs), SOME - 1, -1)]
    tried += [(count, 1) for count in range(len(costs), least - 1, -1)]
    fitting = (it for it in tried if SLACK * work.search(costs[: it[0]], it[1], speed)[0] <= available)
    count, seeds = next(fitting, (least, 1))
    seconds, rounds = work.search(costs[:count], seeds, speed)
    return CurePlan(count, seeds, seconds / rounds, confirm, needed)


class SearchClock(Clock):
    """Ends a search where the runs on fresh seeds, at the speed seen so far, need what is left."""

    def __init__(self, budget: float, spent: float, plan: CurePlan) -> None:
        super().__init__(budget, spent)
        self.plan, self.rounds = plan, 0

    def tick(self) -> None:
        """Count a round of the search."""
        self.rounds += 1

    @property
    def pace(self) -> float:
        """How much slower than planned it goes."""
        planned = self.rounds * self.plan.rate
        return (self.spent - self._before) / planned if self.rounds >= KNOWN and planned > 0 else 1.0

    @property
    def over(self) -> bool:
        assert self.budget is not None
        reserve = SLACK * self.pace * self.plan.confirm
        return self.spent >= max(ALWAYS * self.budget, self.budget - reserve)
