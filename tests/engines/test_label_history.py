"""Label counts of earlier participations, worked by hand."""

import pytest
import torch
from torch import Tensor

from eunoe.engines.label_history import LabelHistory


def counts(*values: int) -> Tensor:
    return torch.tensor(values)


def told(lag: int, rounds: list[Tensor]) -> list[list[int]]:
    """What a client goes by in each of its participations; its state travels through tensors."""
    state, found = dict[str, Tensor](), []
    for now in rounds:
        history = LabelHistory.of(state, lag, 3)
        found.append(history.known(now).tolist())
        state = history.after(now).state()
    return found


ROUNDS = [counts(5, 0, 0), counts(0, 4, 0), counts(0, 1, 7), counts(2, 0, 0)]


@pytest.mark.parametrize(
    ("lag", "rounds_told"),
    [(0, [0, 1, 2, 3]), (1, [0, 0, 1, 2]), (2, [0, 0, 0, 1]), (9, [0, 0, 0, 0])],
)
def test_counts_lag_by_participations(lag: int, rounds_told: list[int]) -> None:
    assert told(lag, ROUNDS) == [ROUNDS[round].tolist() for round in rounds_told]


def test_the_most_of_each_class_stays() -> None:
    history = LabelHistory.of({}, 0, 3)
    for now, most in zip(ROUNDS, ([5, 0, 0], [5, 4, 0], [5, 4, 7], [5, 4, 7]), strict=True):
        assert history.seen(now).tolist() == most
        history = history.after(now)


def test_what_is_seen_of_old_counts_lags_too() -> None:
    history = LabelHistory.of({}, 1, 3).after(ROUNDS[0])
    assert history.seen(ROUNDS[1]).tolist() == [5, 0, 0]
    assert history.after(ROUNDS[1]).seen(ROUNDS[2]).tolist() == [5, 4, 0]
