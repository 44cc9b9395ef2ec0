"""The setting of runs in words."""

from eunoe.papers import find_exhibit
from eunoe.papers.setting import in_words


def test_what_the_runs_share_is_said() -> None:
    small = find_exhibit("wsm-table5").plan("small", [0])
    shared = "30 clients, 10% a round, 60 rounds, 20,000 training images, images of half the size"
    assert in_words(small) == f"{shared}, last rounds: 20"
    flashback = find_exhibit("flashback-table1-cifar10").plan("small", [0])
    assert in_words(flashback) == "100 clients, 10 a round, 15 rounds, cnn of width 8"
    by_writer = find_exhibit("flashback-table1-femnist").plan("small", [0])
    assert in_words(by_writer) == "32 a round, 30 rounds, 16 public groups, cnn of width 8"
    assert in_words([]) == ""


def test_what_differs_between_the_runs_is_left_out() -> None:
    ablation = find_exhibit("wsm-fig6-lenet").plan("small", [0])
    assert in_words(ablation) == "100 clients, 60 rounds, last rounds: 5"
