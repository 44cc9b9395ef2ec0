"""The memory of a client: replay samples and label counts of earlier participations."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from eunoe.core.rng import generator
from eunoe.engines.memory import LabelHistory, Replay
from eunoe.simulation.running import run


def rng(number: int = 0) -> np.random.Generator:
    return generator(number, "replay")


def empty(size: int, classes: int = 3) -> Replay:
    return Replay.load({}, size, classes)


def test_everything_is_kept_while_there_is_room() -> None:
    labels = np.array([0, 1, 2, 0, 1])
    memory = empty(5).after(np.arange(5), labels, rng())
    assert sorted(memory.rows.tolist()) == [0, 1, 2, 3, 4]
    assert memory.seen.tolist() == [2, 2, 1]
    assert not memory.full.any()


def test_a_rare_class_takes_the_place_of_the_largest() -> None:
    labels = np.array([0] * 90 + [1] * 4 + [2] * 2)
    memory = empty(9).after(np.arange(90), labels, rng())
    assert set(labels[memory.rows]) == {0}
    memory = memory.after(np.arange(90, 96), labels, rng(1))
    assert np.bincount(labels[memory.rows]).tolist() == [3, 4, 2]
    assert memory.full.tolist() == [True, False, False]


def test_samples_of_the_largest_class_are_kept_with_equal_chances() -> None:
    """A reservoir: each of 40 samples of one class stays in 1 of 4 cases."""
    labels = np.zeros(40, np.int64)
    kept = np.zeros(40)
    for number in range(600):
        kept[empty(10, 1).after(np.arange(40), labels, rng(number)).rows] += 1
    assert kept.sum() == 6000
    assert np.abs(kept / 600 - 0.25).max() < 0.08


@given(st.lists(st.integers(0, 2), min_size=1, max_size=60), st.integers(1, 12), st.integers(0, 5))
def test_a_memory_is_bounded_and_keeps_each_row_once(found: list[int], size: int, seed: int) -> None:
    labels = np.array(found)
    memory = empty(size)
    for part in np.array_split(np.arange(len(labels)), 3):
        memory = memory.after(part, labels, rng(seed))
        again = Replay.load(memory.state(), size, 3)
        assert again.rows.tolist() == memory.rows.tolist()
        assert again.seen.tolist() == memory.seen.tolist()
        assert len(memory.rows) == len(set(memory.rows.tolist())) <= size
    assert len(memory.rows) == min(size, len(labels))


SETTING: dict[str, Any] = {
    "rounds": 6,
    "partition": {"name": "dirichlet", "clients": 6, "alpha": 0.3},
    "participation": 2,
    "model": {"name": "mlp", "hidden": [4]},
    "training": {"epochs": 1},
    "engine": "serial",
}


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_without_change_there_is_nothing_to_remember(method: str) -> None:
    plain, replayed = run(SETTING, method=method), run(SETTING, method=method, replay={"memory": 30})
    assert torch.equal(plain.weights().parameters, replayed.weights().parameters)


def test_clients_train_on_what_is_gone() -> None:
    stream = {"name": "classes", "phases": 2, "shuffle": False}
    plain, replayed = (
        run(SETTING, rounds=20, participation=6, stream=stream, training={"epochs": 3, "lr": 0.1}, **extra)
        for extra in ({}, {"replay": {"memory": 100}})
    )
    past = [one.records[-1]["phases"]["past"] for one in (plain, replayed)]
    assert past[1] > past[0] + 0.1
    assert plain.records[-1]["bytes_up"] == replayed.records[-1]["bytes_up"]


def counts(*values: int) -> Tensor:
    return torch.tensor(values)


def told(lag: int, rounds: list[Tensor]) -> list[list[int]]:
    """What a client goes by in each of its participations; its state travels through tensors."""
    state, found = dict[str, Tensor](), []
    for now in rounds:
        history = LabelHistory.load(state, lag, 3)
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
    history = LabelHistory.load({}, 0, 3)
    for now, most in zip(ROUNDS, ([5, 0, 0], [5, 4, 0], [5, 4, 7], [5, 4, 7]), strict=True):
        assert history.seen(now).tolist() == most
        history = history.after(now)


def test_what_is_seen_of_old_counts_lags_too() -> None:
    history = LabelHistory.load({}, 1, 3).after(ROUNDS[0])
    assert history.seen(ROUNDS[1]).tolist() == [5, 0, 0]
    assert history.after(ROUNDS[1]).seen(ROUNDS[2]).tolist() == [5, 4, 0]
