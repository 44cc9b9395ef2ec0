"""FedProx against numbers worked by hand."""

import math
from pathlib import Path

import pytest
import torch

from eunoe.methods.fedavg import FedAvg
from eunoe.methods.fedprox import FedProx
from tests.methods.helpers import Trial, random_parts

ONE = [([[1.0]], [0])]


def test_two_steps_by_hand(tmp_path: Path) -> None:
    # From (0, 0): gradient (-1/2, 1/2), so with rate 1/2 to (1/4, -1/4). There the softmax of class 0 is
    # 1 / (1 + e^(-1/2)); its gradient and the pull 2 * 1/4 make the second step.
    trial = Trial(tmp_path, ONE, FedProx(mu=2.0), training={"steps": 2, "lr": 0.5, "batch_size": 0}).rounds()
    gradient = 1 / (1 + math.exp(-0.5)) - 1 + 2 * 0.25
    expected = 0.25 - 0.5 * gradient
    assert trial.parameters.tolist() == pytest.approx([expected, -expected], rel=1e-14)


@pytest.mark.parametrize("mu", [0.1, 10.0])
def test_one_step_is_fedavg_for_every_strength(mu: float, tmp_path: Path) -> None:
    parts = random_parts([5, 9], 3, 4)
    training = {"epochs": 1, "lr": 0.3, "batch_size": 0}
    pulled = Trial(tmp_path / "a", parts, FedProx(mu=mu), classes=4, training=training).rounds(2)
    plain = Trial(tmp_path / "b", parts, FedAvg(), classes=4, training=training).rounds(2)
    assert torch.equal(pulled.parameters, plain.parameters)


def test_strong_pull_keeps_clients_near(tmp_path: Path) -> None:
    parts = random_parts([20], 3, 4)
    training = {"steps": 50, "lr": 0.009, "batch_size": 4}
    moved = [
        float(
            Trial(tmp_path / str(mu), parts, FedProx(mu=mu), classes=4, training=training)
            .rounds()
            .parameters.norm()
        )
        for mu in (0.0, 100.0)
    ]
    assert moved[1] < 0.1 * moved[0]


def test_momentum_gets_the_pull_before_it(tmp_path: Path) -> None:
    training = {"steps": 3, "lr": 0.5, "momentum": 0.5, "batch_size": 0}
    trial = Trial(tmp_path, ONE, FedProx(mu=1.0), training=training).rounds()
    y, moment = 0.0, 0.0
    for _ in range(3):
        gradient = 1 / (1 + math.exp(-2 * y)) - 1 + y
        moment = 0.5 * moment + gradient
        y -= 0.5 * moment
    assert trial.parameters[0].item() == pytest.approx(y, rel=1e-13)


def test_overshooting_is_warned_of(tmp_path: Path) -> None:
    assert Trial(tmp_path, ONE, FedProx(mu=4.0), training={"lr": 0.5}).warnings
    assert not Trial(tmp_path, ONE, FedProx(mu=3.9), training={"lr": 0.5}).warnings
