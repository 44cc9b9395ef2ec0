"""FedCM against numbers worked by hand, and what its momentum adds up to."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.errors import InputError
from eunoe.methods.fedcm import FedCM
from tests.methods.helpers import Trial, random_parts, softmax_gradient

ONE = [([[1.0]], [0])]
PARTS = random_parts([8, 8, 8], 3, 4)


def test_two_rounds_by_hand(tmp_path: Path) -> None:
    # Round 1: gradient (-1/2, 1/2), a quarter of it by rate 1/2 to (1/16, -1/16), so d = (-1/8, 1/8).
    # Round 2: 1/4 (p - 1) - 3/4 * 1/8 with p = 1 / (1 + e^(-1/8)).
    training = {"steps": 1, "lr": 0.5, "batch_size": 0}
    trial = Trial(tmp_path, ONE, FedCM(alpha=0.25), training=training).rounds()
    assert trial.parameters.tolist() == [0.0625, -0.0625]
    assert trial.server["step"].tolist() == [-0.125, 0.125]
    trial.rounds()
    step = 0.25 * (1 / (1 + math.exp(-0.125)) - 1) - 0.75 * 0.125
    assert trial.parameters[0].item() == pytest.approx(0.0625 - 0.5 * step, rel=1e-14)
    assert trial.server["step"][0].item() == pytest.approx(step, rel=1e-13)


def test_the_papers_loop(tmp_path: Path) -> None:
    """Three rounds of all clients, written out as the paper has them."""
    training = {"steps": 4, "lr": 0.2, "batch_size": 0}
    trial = Trial(tmp_path, PARTS, FedCM(), classes=4, training=training).rounds(3)
    w = d = torch.zeros(12, dtype=torch.float64)
    for _ in range(3):
        ends = []
        for part in PARTS:
            y = w
            for _ in range(4):
                y = y - 0.2 * (0.1 * softmax_gradient(y, *part) + 0.9 * d)
            ends.append(y)
        d = (w - torch.stack(ends).mean(0)) / (0.2 * 4)
        w = torch.stack(ends).mean(0)
    torch.testing.assert_close(trial.parameters, w, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "training", [{"momentum": 0.9}, {"momentum": 0.9, "clip": 100.0}, {"epochs": (1, 3)}]
)
def test_a_step_is_no_longer_than_what_it_is_the_mean_of(training: dict[str, Any], tmp_path: Path) -> None:
    """A constant gradient of one class alone: d goes to it from below, whatever adds up and however often."""
    parts = [([[1.0]] * size, [0] * size) for size in (4, 8)]
    values = {"lr": 1e-6, "batch_size": 4, **training}
    trial = Trial(tmp_path, parts, FedCM(alpha=0.5), training=values)
    for round in range(1, 6):
        trial.rounds()
        # d_t = 1/2 g + 1/2 d_(t-1) with g = (-1/2, 1/2) and d_0 = 0.
        assert trial.server["step"].tolist() == pytest.approx(
            [-0.5 * (1 - 0.5**round), 0.5 * (1 - 0.5**round)], rel=1e-3
        )


def test_adam_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'sgd'"):
        Trial(tmp_path, PARTS, FedCM(), classes=4, training={"optimizer": "adam"})


def test_the_mean_step_comes_down_beside_the_model(tmp_path: Path) -> None:
    record = Trial(tmp_path, PARTS, FedCM(), classes=4).rounds().record
    assert record["bytes_down"] == 3 * 2 * 12 * 8
    assert record["bytes_up"] == 3 * 13 * 8
