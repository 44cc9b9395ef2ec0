"""What of a cure fits a budget, by hand."""

from dataclasses import replace

import pytest

from eunoe.errors import InputError
from eunoe.search.cure_plan import (
    ALWAYS,
    KNOWN,
    MOST_FRESH,
    SLACK,
    CostModel,
    CurePlan,
    SearchClock,
    Speed,
    make_plan,
    measure_speed,
)
from eunoe.store.run_records import RunRecords

SECOND = Speed(start=0.0, train=1.0, validate=0.0, test=0.0)
# Two times five runs of four rounds are 40 seconds on one core.
NEEDED = pytest.approx(SLACK * 50)
MODEL = CostModel(SECOND, rounds=4, stage_evaluations=1, run_evaluations=2, fresh=5, jobs=1)


def test_the_plan_grows_with_the_budget() -> None:
    costs = [1.0] * 16
    # 16 trials to round 1, 8 to round 2 and 4 to round 4 are 32 seconds a seed.
    for seeds in (5, 4, 3, 2):
        budget = 2 * SLACK * seeds * 32
        assert make_plan(costs, MODEL, budget) == CurePlan(16, seeds, pytest.approx(1.0), 40.0, NEEDED)
    # Eight candidates are 16 seconds a seed, and the search gets what the runs on fresh seeds leave.
    some = make_plan(costs, MODEL, SLACK * (40 + 32) + 1e-9)
    assert (some.candidates, some.seeds) == (8, 2)
    few = make_plan(costs, MODEL, SLACK * (40 + 12) + 1e-9)
    assert (few.candidates, few.seeds) == (5, 1)


def test_a_budget_that_is_too_small_says_which_would_do() -> None:
    # The least search, of 4 remedies of which 2 run to the end, takes 10 seconds.
    with pytest.raises(
        InputError, match=r"a budget of 10s is too short for a search and 5 fresh seeds \(use at least 60s\)"
    ):
        make_plan([1.0] * 16, MODEL, 10.0)
    assert make_plan([1.0] * 16, MODEL, 60.0).candidates >= 4


def test_where_no_search_fits_averaging_alone_is_judged_by_five_runs() -> None:
    assert make_plan([1.0] * 16, MODEL, 59.0) == CurePlan(1, 0, 0.0, 20.0, NEEDED)
    with pytest.raises(InputError, match="use at least 60s"):
        make_plan([1.0] * 16, MODEL, 59.0, averages=True)


def test_several_at_a_time_take_less_and_dear_ones_more() -> None:
    budget, two = 2 * SLACK * 32, CostModel(SECOND, 4, 1, 2, 5, jobs=2)
    assert make_plan([1.0] * 16, two, budget).seeds == 2
    assert make_plan([1.0, *[2.0] * 15], two, budget).candidates < 16


def test_evaluations_are_counted_by_model_and_part() -> None:
    model = replace(MODEL, speed=Speed(start=1.0, train=0.0, validate=0.1, test=1.0))
    # Two trials to rounds 1, 2 and 4: six starts, each with one evaluation of two models.
    assert model.search([1.0, 1.0], 1) == (pytest.approx(6 * 1.2), 8)
    # Ten runs with two evaluations, of one model for the baseline and of two for the remedy.
    assert model.confirm() == pytest.approx(10 * (1 + 1.5 * 2 * 1.1))


def test_fresh_seeds_are_those_that_fit_but_no_fewer_than_planned() -> None:
    # A pair of runs of four rounds takes 8 seconds, or 12 if the remedy's training takes twice as long.
    for seconds, cost, seeds in (
        (8 * 7.1, 1.0, 7),
        (12 * 7.1, 2.0, 7),
        (1.0, 1.0, 5),
        (1e6, 1.0, MOST_FRESH),
    ):
        assert MODEL.seeds_within(SLACK * seconds, 2, cost) == seeds
    assert MODEL.seeds_within(SLACK * 4 * 9.1, 1, 1.0) == 9


def test_without_a_remedy_there_is_no_plan() -> None:
    with pytest.raises(InputError, match="no remedy fits this run"):
        make_plan([1.0], MODEL, 1e6)


def test_the_speed_is_that_of_the_run_on_one_core() -> None:
    timings = [{"round": 1, "train": 1.0, "evaluate": 0.5, "probe": 9.0}, {"round": 2, "train": 3.0}]
    metrics = [{"round": 1, "clients": [1, 2, 3]}]
    serial = RunRecords("", metrics, timings=timings, config={"engine": {"name": "serial"}})
    assert measure_speed(serial, 0.1, 0.4) == Speed(0.1, 2.0, pytest.approx(0.2), pytest.approx(0.3))
    averaged = RunRecords("", metrics, timings=timings, config={**serial.config, "averaging": {"last": 2}})
    assert measure_speed(averaged, 0.1, 0.4) == Speed(0.1, 2.0, pytest.approx(0.1), pytest.approx(0.15))
    several = RunRecords("", metrics, timings=timings, config={"engine": {"name": "process", "workers": 8}})
    assert measure_speed(several, 0.1, 0.4) == Speed(0.1, 6.0, pytest.approx(0.6), pytest.approx(0.9))
    untimed = RunRecords("", metrics, config=serial.config, status={"state": "finished", "seconds": 4.0})
    assert measure_speed(untimed, 0.1, 0.4) == Speed(0.1, 4.0, 0.0, 0.0)


def test_a_search_ends_where_the_judgment_needs_what_is_left() -> None:
    # Planned for 1 second a round, and 100 seconds for the runs on fresh seeds, of 1,000 seconds in all.
    class At(SearchClock):
        now = 0.0

        @property
        def spent(self) -> float:
            return self.now

    clock = At(1000.0, 0.0, CurePlan(4, 1, rate=1.0, confirm=100.0, needed=200.0))
    for seconds, over in ((0.0, False), (879.0, False), (881.0, True)):
        clock.now = seconds
        assert clock.over == over
    # A machine four times slower: the runs will take 480 seconds.
    for _ in range(KNOWN):
        clock.tick()
    clock.now = 4.0 * KNOWN
    assert (clock.pace, clock.over) == (4.0, False)
    clock.rounds, clock.now = 128, 512.0
    assert not clock.over
    clock.rounds, clock.now = 131, 524.0
    assert clock.over
    # However slow it is, the search has its share.
    clock.rounds, clock.now = KNOWN, ALWAYS * 1000 - 1
    assert not clock.over
