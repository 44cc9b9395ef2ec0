"""The plan of a cure: how many remedies, seeds and rounds fit its budget.

Times are estimated from those of the run itself. The plan is made once and stored, so that the trials do not
depend on how long anything takes. If the machine turns out slower, the search ends early, so that time is
left for the runs on fresh seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eunoe.errors import InputError
from eunoe.search.budget import Clock, format_budget
from eunoe.search.halving import rungs_of
from eunoe.store.run_records import RunRecords
from eunoe.system.machine import cores

# The least number of remedies in a search.
LEAST = 4
# From so many remedies on, a second seed is preferred to further remedies.
SOME = 6
MOST_SEEDS = 5
# The least and the largest number of fresh seeds.
FRESH, MOST_FRESH = 5, 20
# Factor on estimated times.
SLACK = 1.2
# Share of the budget that the search gets however slow the machine is.
ALWAYS = 0.35
# Rounds after which the speed of a search is known.
KNOWN = 20


@dataclass(frozen=True)
class Speed:
    """Seconds on one core: to start a run, to train a round, and to evaluate a model on each part."""

    start: float
    train: float
    validate: float
    test: float


def measure_speed(run: RunRecords, start: float, validation: float) -> Speed:
    """Return the speed of a run's rounds, scaled to one process.

    `validation` is the share of the clients' validation parts in the evaluated samples.
    """
    config = run.checked_config
    parallel = 1
    if config.engine.name == "process":
        workers = int(config.engine.options.get("workers") or cores())
        participants = max((len(record.get("clients", ())) for record in run.metrics), default=1)
        parallel = max(1, min(workers, participants))
    timings = run.timings
    if not timings:
        seconds = float(run.status.get("seconds", 0.0)) / max(1, len(run.metrics))
        return Speed(start, parallel * seconds, 0.0, 0.0)
    train = parallel * float(np.mean([timing.get("train") or 0.0 for timing in timings]))
    evaluations = [timing["evaluate"] for timing in timings if timing.get("evaluate")]
    models = 1 if config.averaging is None else 2
    evaluate = parallel * (float(np.mean(evaluations)) / models if evaluations else 0.0)
    return Speed(start, train, evaluate * validation, evaluate * (1 - validation))


@dataclass(frozen=True)
class CostModel:
    """Estimated seconds of a cure, from its speed, rounds and evaluations of a stage and of a full run."""

    speed: Speed
    rounds: int
    stage_evaluations: int
    run_evaluations: int
    fresh: int
    jobs: int

    def search(self, costs: Sequence[float], seeds: int) -> tuple[float, int]:
        """Return the seconds and rounds of a search over remedies of these costs.

        Each trial evaluates two models, the newest and the averaged one.
        """
        seconds, total, left, before = 0.0, 0, sorted(costs), 0
        for rung in rungs_of(self.rounds):
            evaluations = min(self.stage_evaluations, rung - before)
            train = (rung - before) * float(np.mean(left)) * self.speed.train
            trial = self.speed.start + train + 2 * evaluations * self.speed.validate
            seconds += math.ceil(len(left) * seeds / self.jobs) * trial
            total += len(left) * seeds * (rung - before)
            # The more expensive half may be the better one, and the baseline continues beside the best.
            left, before = left[min(len(left) // 2, max(0, len(left) - 2)) :], rung
        return seconds, total

    def confirm(self, arms: int = 2, cost: float = 1.0) -> float:
        """Return the seconds of the runs on fresh seeds.

        The baseline evaluates one model, a remedy two. Averaging alone needs one arm: its runs show the
        baseline too. `cost` is that of the remedy's local training.
        """
        models, cost = (1.5, (1 + cost) / 2) if arms == 2 else (2.0, cost)
        evaluations = models * self.run_evaluations * (self.speed.validate + self.speed.test)
        run = self.speed.start + self.rounds * cost * self.speed.train + evaluations
        return math.ceil(arms * self.fresh / self.jobs) * run

    def seeds_within(self, seconds: float, arms: int, cost: float) -> int:
        """Return how many fresh seeds fit these seconds, but no fewer than planned."""
        counts = range(self.fresh, MOST_FRESH + 1)
        fit = [n for n in counts if SLACK * replace(self, fresh=n).confirm(arms, cost) <= seconds]
        return max(fit, default=self.fresh)


@dataclass(frozen=True)
class CurePlan:
    """How many remedies are searched, on how many seeds (0: no search fits the budget).

    `rate` is the planned seconds of a round of the search, `confirm` of all runs on fresh seeds. `needed` is
    the least budget with a search.
    """

    candidates: int
    seeds: int
    rate: float
    confirm: float
    needed: float


def make_plan(costs: Sequence[float], model: CostModel, budget: float, averages: bool = False) -> CurePlan:
    """Return the largest search that fits half of the budget and leaves time for the fresh seeds.

    `costs` are those of the applicable remedies. If no search fits, only averaging is evaluated, unless the
    run `averages` already.
    """
    if len(costs) < 2:
        raise InputError("no remedy fits this run: all of them are incompatible with its configuration")
    least, confirm = min(LEAST, len(costs)), model.confirm()
    needed = SLACK * (confirm + model.search(costs[:least], 1)[0])
    alone = model.confirm(arms=1)
    if needed > budget >= SLACK * alone and not averages:
        return CurePlan(1, 0, 0.0, alone, needed)
    if needed > budget:
        raise InputError(
            f"a budget of {format_budget(budget)} is too short for a search and {model.fresh} fresh seeds "
            f"(use at least {format_budget(needed)})"
        )
    available = min(budget / 2, budget - SLACK * confirm)
    sizes = [(len(costs), seeds) for seeds in range(MOST_SEEDS, 1, -1)]
    sizes += [(count, 2) for count in range(len(costs), SOME - 1, -1)]
    sizes += [(count, 1) for count in range(len(costs), least - 1, -1)]
    fitting = (size for size in sizes if SLACK * model.search(costs[: size[0]], size[1])[0] <= available)
    count, seeds = next(fitting, (least, 1))
    seconds, rounds = model.search(costs[:count], seeds)
    return CurePlan(count, seeds, seconds / rounds, confirm, needed)


class SearchClock(Clock):
    """Ends a search when the fresh seeds, at the speed measured so far, need the rest of the budget."""

    def __init__(self, budget: float, spent: float, plan: CurePlan) -> None:
        super().__init__(budget, spent)
        self.plan, self.rounds = plan, 0

    def tick(self) -> None:
        """Count a round of the search."""
        self.rounds += 1

    @property
    def pace(self) -> float:
        """The time taken relative to the plan."""
        planned = self.rounds * self.plan.rate
        return (self.spent - self._before) / planned if self.rounds >= KNOWN and planned > 0 else 1.0

    @property
    def over(self) -> bool:
        assert self.budget is not None
        reserve = SLACK * self.pace * self.plan.confirm
        return self.spent >= max(ALWAYS * self.budget, self.budget - reserve)
