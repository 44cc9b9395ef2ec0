"""The setting of runs in words, and their cost."""

import pytest

from eunoe_papers.cost import count_samples, describe_setting, estimate_seconds
from eunoe_papers.loader import find_experiment


def test_what_the_runs_share_is_said() -> None:
    small = find_experiment("wsm-table5").plan("small", [0])
    shared = "30 clients, 10% a round, 60 rounds, 20,000 training images, images of half the size"
    assert describe_setting(small) == f"{shared}, last rounds: 20"
    flashback = find_experiment("flashback-table1-cifar10").plan("small", [0])
    assert describe_setting(flashback) == "100 clients, 10 a round, 15 rounds, cnn of width 8"
    by_writer = find_experiment("flashback-table1-femnist").plan("small", [0])
    assert describe_setting(by_writer) == "32 a round, 30 rounds, 16 public groups, cnn of width 8"
    assert describe_setting([]) == ""


def test_what_differs_between_the_runs_is_left_out() -> None:
    ablation = find_experiment("wsm-fig6-lenet").plan("small", [0])
    assert describe_setting(ablation) == "100 clients, 60 rounds, last rounds: 5"


def test_cost_by_hand() -> None:
    run = find_experiment("wsm-table3").plan("full", [0], only="cifar100 lr=0.01")[0]
    # 2 clients of 450 samples, 3 epochs, 4000 rounds.
    assert count_samples(run.values) == pytest.approx(2 * 450 * 3 * 4000)
    assert estimate_seconds(run.values) == pytest.approx(10_800_000 / 6100)
    halved = {**run.values, "data": {**run.values["data"], "pool": 2}}
    assert estimate_seconds(halved) == pytest.approx(10_800_000 / 6100 / 3)
