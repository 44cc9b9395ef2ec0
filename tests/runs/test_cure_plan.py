"""What of a cure fits a budget, by hand."""

import pytest

from eunoe.errors import InputError
from eunoe.records.reader import RunRecords
from eunoe.runs.cure_plan import SLACK, CurePlan, Speed, make_plan, measured

SECOND = Speed(start=0.0, train=1.0, evaluate=0.0)


def test_the_plan_grows_with_the_budget() -> None:
    costs = [1.0] * 16
    # On one core 16 trials to round 1, 8 to round 2 and 4 to round 4 are 32 seconds a seed; two times five
    # runs of four rounds are 40.
    need = [(2 * SLACK * 3 * 32, 16, 3), (2 * SLACK * 2 * 32, 16, 2)]
    for budget, count, seeds in need:
        assert make_plan(costs, 4, SECOND, budget, 5, 1) == CurePlan(count, seeds, budget - SLACK * 40)
    # Eight candidates are 16 seconds a seed, and the search gets what the runs on fresh seeds leave.
    assert make_plan(costs, 4, SECOND, SLACK * (40 + 32), 5, 1) == CurePlan(8, 2, pytest.approx(SLACK * 32))
    few = make_plan(costs, 4, SECOND, SLACK * (40 + 12), 5, 1)
    assert (few.candidates, few.seeds) == (5, 1)


def test_a_budget_that_is_too_small_says_which_would_do() -> None:
    # The least search, of 4 candidates, takes 8 seconds.
    with pytest.raises(InputError, match=r"a budget of 10s cannot hold 5 runs each .* give --budget 63s"):
        make_plan([1.0] * 16, 4, SECOND, 10.0, 5, 1)
    assert make_plan([1.0] * 16, 4, SECOND, 63.0, 5, 1).candidates >= 4


def test_several_at_a_time_take_less_and_dear_ones_more() -> None:
    budget = 2 * SLACK * 32
    assert make_plan([1.0] * 16, 4, SECOND, budget, 5, 2).seeds == 2
    assert make_plan([1.0, *[2.0] * 15], 4, SECOND, budget, 5, 2).candidates < 16


def test_without_a_remedy_there_is_no_plan() -> None:
    with pytest.raises(InputError, match="no remedy fits this run"):
        make_plan([1.0], 4, SECOND, 1e6, 5, 1)


def test_the_speed_is_that_of_the_run_on_one_core() -> None:
    timings = [{"round": 1, "train": 1.0, "evaluate": 0.5, "probe": 9.0}, {"round": 2, "train": 3.0}]
    metrics = [{"round": 1, "clients": [1, 2, 3]}]
    serial = RunRecords("", metrics, timings=timings, config={"engine": {"name": "serial"}})
    assert measured(serial, 0.1) == Speed(0.1, 2.0, 0.25)
    several = RunRecords("", metrics, timings=timings, config={"engine": {"name": "process", "workers": 8}})
    assert measured(several, 0.1) == Speed(0.1, 6.0, 0.75)
    untimed = RunRecords("", metrics, config=serial.config, status={"state": "finished", "seconds": 4.0})
    assert measured(untimed, 0.1) == Speed(0.1, 4.0, 0.0)
