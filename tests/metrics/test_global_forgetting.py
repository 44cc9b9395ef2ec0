"""What the global model forgot, by hand."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from eunoe.core.tasks import Regression
from eunoe.metrics import Evaluation, Predictions, Snapshot
from eunoe.metrics.global_forgetting import GlobalForgetting


def evaluation(*per_class: tuple[int, int]) -> Evaluation:
    """So many right of so many samples in each class; who is wrong says the next class."""
    labels = np.concatenate([np.full(count, label) for label, (_, count) in enumerate(per_class)])
    said = labels.copy()
    for label, (right, count) in enumerate(per_class):
        said[np.flatnonzero(labels == label)[: count - right]] = (label + 1) % len(per_class)
    return Evaluation(
        Predictions(said, np.zeros(len(said)), np.zeros(len(per_class))), labels, len(per_class)
    )


def on_test(round: int, *per_class: tuple[int, int]) -> Snapshot:
    return Snapshot(round, "global", {"test": evaluation(*per_class)}, torch.zeros(1))


def shown(metric: GlobalForgetting, *snapshots: Snapshot) -> list[dict]:
    found = []
    for snapshot in snapshots:
        metric.update(snapshot)
        found.append(dict(metric.compute()))
    return found


THREE = [
    on_test(1, (9, 10), (2, 10), (5, 10)),
    on_test(2, (6, 10), (4, 10), (5, 10)),
    on_test(3, (7, 10), (1, 10), (8, 10)),
]


def test_round_forgetting_and_the_fedntd_score_by_hand() -> None:
    metric = GlobalForgetting()
    first, second, third = shown(metric, *THREE)
    assert first == {"on": "test", "round": None, "fedntd": None}
    # Round 2: only class 0 lost, 0.3 of it.
    assert second["round"] == pytest.approx(0.3 / 3)
    assert second["fedntd"] == pytest.approx((0.3 - 0.2 + 0.0) / 3)
    # Round 3: class 1 lost 0.3 against round 2; best before were 0.9, 0.4, 0.5.
    assert third["round"] == pytest.approx(0.3 / 3)
    assert third["fedntd"] == pytest.approx((0.2 + 0.3 - 0.3) / 3)
    assert metric.state()["best"] == pytest.approx([0.9, 0.4, 0.8])


def test_it_goes_on_from_its_state() -> None:
    whole, metric = shown(GlobalForgetting(), *THREE), GlobalForgetting()
    shown(metric, *THREE[:2])
    again = GlobalForgetting()
    again.restore(json.loads(json.dumps(metric.state())))
    assert shown(again, THREE[2]) == whole[2:]


def test_a_class_without_samples_counts_for_nothing() -> None:
    metric = GlobalForgetting()
    _, second = shown(metric, on_test(1, (9, 10), (0, 0)), on_test(2, (5, 10), (0, 0)))
    assert second["round"] == pytest.approx(0.4)
    assert second["fedntd"] == pytest.approx(0.4)
    assert math.isnan(metric.state()["best"][1])


def test_round_forgetting_is_between_neighboring_rounds_only() -> None:
    rounds = [on_test(round, (right, 10), (0, 0)) for round, right in ((4, 9), (9, 5), (10, 4))]
    found = shown(GlobalForgetting(), *rounds)
    assert [one["round"] for one in found] == [None, None, pytest.approx(0.1)]
    assert [one["fedntd"] for one in found] == [None, pytest.approx(0.4), pytest.approx(0.5)]
    found = shown(GlobalForgetting(over_gaps=True), *rounds)
    assert [one["round"] for one in found] == [None, pytest.approx(0.4), pytest.approx(0.1)]


def test_validation_stands_in_for_a_test_set() -> None:
    parts = {"validation": evaluation((1, 2), (2, 2)), "client_test": evaluation((0, 2), (0, 2))}
    metric = GlobalForgetting()
    metric.update(Snapshot(1, "global", parts, torch.zeros(1)))
    assert metric.compute()["on"] == "validation"
    assert metric.state()["best"] == [0.5, 1.0]


def test_without_either_it_is_empty() -> None:
    metric = GlobalForgetting()
    assert shown(metric, Snapshot(1, "global", {"client_test": evaluation((1, 2))}, torch.zeros(1))) == [{}]
    assert metric.state()["previous"] is None


def of_clients(losses: list[float]) -> Evaluation:
    """A evaluation at which clients 0, 1, ... have a sample each, and these squared errors."""
    found = np.array(losses)
    predictions = Predictions(np.zeros((len(found), 1)), found, np.zeros(1))
    return Evaluation(predictions, np.zeros((len(found), 1)), 1, np.arange(len(found)), Regression())


def test_numbers_are_forgotten_by_clients() -> None:
    metric = GlobalForgetting()
    for number, losses in enumerate(([0.5, 0.9], [0.8, 0.7]), start=1):
        metric.update(Snapshot(number, "global", {"validation": of_clients(losses)}, torch.zeros(1)))
    # Client 0 loses .3, client 1 gains .2.
    assert metric.compute() == {
        "on": "validation",
        "round": pytest.approx(0.15),
        "fedntd": pytest.approx((0.3 - 0.2) / 2),
    }


def test_a_test_set_of_nobody_says_nothing_of_numbers() -> None:
    metric = GlobalForgetting()
    nobody = replace(of_clients([0.5, 0.5]), owners=None)
    evaluations = {"test": nobody, "validation": of_clients([0.5, 0.5])}
    metric.update(Snapshot(1, "global", evaluations, torch.zeros(1)))
    assert metric.compute()["on"] == "validation"


def test_clients_elsewhere_may_be_others_in_each_round() -> None:
    metric = GlobalForgetting()
    for number, (clients, losses) in enumerate((([0, 2], [0.5, 0.5]), ([0, 1], [0.7, 0.1])), start=1):
        measured = {"validation": {"by_client": {"clients": clients, "loss": losses}}}
        metric.update(Snapshot(number, "global", {}, torch.zeros(1), elsewhere=measured))
    # Only client 0 is known in both.
    assert metric.compute()["round"] == pytest.approx(0.2)
