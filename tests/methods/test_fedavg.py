"""FedAvg and FedSGD by hand, and what averaging must leave alone."""

import math
from pathlib import Path

import pytest
import torch

from eunoe.methods.fedavg import FedAvg
from tests.methods.helpers import Trial, random_parts, softmax_gradient


def test_one_round_by_hand(tmp_path: Path) -> None:
    # Client 0 has label 0 once, client 1 has label 1 three times. One step of rate 1/2 from (0, 0) leads to
    # (1/4, -1/4) and (-1/4, 1/4); their shares are 1/4 and 3/4.
    parts = [([[1.0]], [0]), ([[1.0]] * 3, [1, 1, 1])]
    training = {"epochs": 1, "lr": 0.5, "batch_size": 0}
    trial = Trial(tmp_path / "samples", parts, FedAvg(), training=training).rounds()
    assert trial.parameters.tolist() == [-0.125, 0.125]
    alike = Trial(tmp_path / "uniform", parts, FedAvg(weighting="uniform"), training=training).rounds()
    assert alike.parameters.tolist() == [0.0, 0.0]


def test_two_local_steps_by_hand(tmp_path: Path) -> None:
    training = {"epochs": 2, "lr": 0.5, "batch_size": 0}
    trial = Trial(tmp_path, [([[1.0]], [0])], FedAvg(), training=training).rounds()
    expected = 0.25 + 0.5 * (1 - 1 / (1 + math.exp(-0.5)))
    assert trial.parameters.tolist() == pytest.approx([expected, -expected], rel=1e-14)


def test_fedsgd_is_a_step_along_the_gradient_of_all_samples(tmp_path: Path) -> None:
    parts = random_parts([4, 9, 2], 3, 4)
    trial = Trial(tmp_path, parts, FedAvg(), classes=4, training={"epochs": 1, "lr": 0.3, "batch_size": 0})
    union = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
    w = trial.parameters
    for _ in range(3):
        w = w - 0.3 * softmax_gradient(w, *union)
    torch.testing.assert_close(trial.rounds(3).parameters, w, rtol=0, atol=1e-14)


def test_clients_alike_are_one_client(tmp_path: Path) -> None:
    part = random_parts([6], 3, 4)
    training = {"steps": 4, "lr": 0.3, "batch_size": 0}
    many = Trial(tmp_path / "many", part * 5, FedAvg(), classes=4, training=training).rounds(2)
    one = Trial(tmp_path / "one", part, FedAvg(), classes=4, training=training).rounds(2)
    torch.testing.assert_close(many.parameters, one.parameters, rtol=0, atol=1e-15)


def test_the_order_of_clients_does_not_matter(tmp_path: Path) -> None:
    parts = random_parts([3, 8, 5, 6], 3, 4)
    training = {"steps": 4, "lr": 0.3, "batch_size": 0}
    ends = [
        Trial(tmp_path / str(k), order, FedAvg(), classes=4, training=training).rounds(2).parameters
        for k, order in enumerate((parts, parts[::-1]))
    ]
    torch.testing.assert_close(*ends, rtol=0, atol=1e-15)
