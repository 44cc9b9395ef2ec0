"""FedNova: closed forms of a client's work, and the global model by hand."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.errors import InputError
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.fednova import FedNova, sum_weights
from tests.methods.helpers import Trial, random_parts

PARTS = random_parts([4, 8, 12], 3, 4)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_closed_forms(steps: int) -> None:
    rho, shrink = 0.9, 0.05
    y = moment = 0.0
    for _ in range(steps):  # Steps of rate 1 along a gradient of 1.
        moment = rho * moment + 1
        y += moment
    assert sum_weights(steps, momentum=rho) == pytest.approx(y, rel=1e-12)
    y = 0.0
    for _ in range(steps):
        y += 1 - shrink * y
    assert sum_weights(steps, shrink=shrink) == pytest.approx(y, rel=1e-12)
    assert sum_weights(steps) == steps


@pytest.mark.parametrize(
    ("options", "training"),
    [({}, {}), ({}, {"momentum": 0.8}), ({"mu": 0.5}, {}), ({}, {"weight_decay": 0.1})],
)
def test_merged_model_from_the_clients(
    options: dict[str, float], training: dict[str, Any], tmp_path: Path
) -> None:
    training = {"epochs": 2, "batch_size": 4, "lr": 0.1, **training}
    trial = Trial(tmp_path, PARTS, FedNova(**options), classes=4, training=training).rounds()
    start = trial.parameters
    updates = [trial.client(k)[0] for k in range(3)]
    trial.rounds()
    steps = [2, 4, 6]
    work = [sum_weights(k, training.get("momentum", 0.0), 0.1 * options.get("mu", 0.0)) for k in steps]
    shares = [4 / 24, 8 / 24, 12 / 24]
    mean = sum(p / a * (u.weights.parameters - start) for p, a, u in zip(shares, work, updates, strict=True))
    stretch = sum(p * a for p, a in zip(shares, work, strict=True))
    assert [update.steps for update in updates] == steps
    torch.testing.assert_close(trial.parameters, start + stretch * mean, rtol=0, atol=1e-14)


@pytest.mark.parametrize("training", [{}, {"momentum": 0.9}])
def test_equal_work_is_fedavg(training: dict[str, Any], tmp_path: Path) -> None:
    training = {"steps": 5, "batch_size": 4, "lr": 0.1, **training}
    nova = Trial(tmp_path / "a", PARTS, FedNova(), classes=4, training=training).rounds(2)
    plain = Trial(tmp_path / "b", PARTS, FedAvg(), classes=4, training=training).rounds(2)
    torch.testing.assert_close(nova.parameters, plain.parameters, rtol=0, atol=1e-14)


def test_unequal_work_is_not_fedavg_but_one_client_is(tmp_path: Path) -> None:
    training = {"epochs": 1, "batch_size": 4, "lr": 0.1}
    results = {}
    for name, method in (("nova", FedNova()), ("plain", FedAvg())):
        for count in (1, 3):
            trial = Trial(tmp_path / f"{name}{count}", PARTS[:count], method, classes=4, training=training)
            results[name, count] = trial.rounds().parameters
    torch.testing.assert_close(results["nova", 1], results["plain", 1], rtol=0, atol=1e-15)
    assert (results["nova", 3] - results["plain", 3]).abs().max() > 1e-3


def test_uniform_weighting_holds_for_the_work_too(tmp_path: Path) -> None:
    training = {"epochs": 1, "batch_size": 4, "lr": 0.1}
    trial = Trial(tmp_path, PARTS, FedNova(weighting="uniform"), classes=4, training=training)
    updates = [trial.client(k)[0].weights.parameters for k in range(3)]
    trial.rounds()
    mean = (updates[0] + updates[1] / 2 + updates[2] / 3) / 3
    torch.testing.assert_close(trial.parameters, 2 * mean, rtol=0, atol=1e-14)


def test_what_it_cannot_have(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sgd"):
        Trial(tmp_path, PARTS, FedNova(), classes=4, training={"optimizer": "adam"})
    with pytest.raises(InputError, match="cannot combine"):
        Trial(tmp_path, PARTS, FedNova(mu=0.1), classes=4, training={"momentum": 0.9})
    # At lr * mu = 2 two steps undo each other: the work to divide by would be 0.
    assert sum_weights(2, shrink=2.0) == 0
    with pytest.raises(InputError, match=r"lower method\.mu"):
        Trial(tmp_path, PARTS, FedNova(mu=20.0), classes=4, training={"lr": 0.1})
    assert Trial(tmp_path, PARTS, FedNova(mu=19.0), classes=4, training={"lr": 0.1}).warnings
    assert not Trial(tmp_path, PARTS, FedNova(mu=9.0), classes=4, training={"lr": 0.1}).warnings


def test_two_clients_by_hand(tmp_path: Path) -> None:
    # Client 0 takes one step from (0, 0), client 1 two: rate 1/2 along (-1/2, 1/2) to (1/4, -1/4), then along
    # p - 1 with p = 1 / (1 + e^(-1/2)). Shares 1/3 and 2/3; work 1 and 2, so the mean is stretched by 5/3.
    parts = [([[1.0]], [0]), ([[1.0], [1.0]], [0, 0])]
    trial = Trial(tmp_path, parts, FedNova(), training={"epochs": 1, "lr": 0.5, "batch_size": 1}).rounds()
    second = 0.25 + 0.5 * (1 - 1 / (1 + math.exp(-0.5)))
    expected = (1 / 3 + 2 * 2 / 3) * (1 / 3 * 0.25 + 2 / 3 * second / 2)
    assert trial.parameters.tolist() == pytest.approx([expected, -expected], rel=1e-13)
