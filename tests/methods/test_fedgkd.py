"""FedGKD against numbers worked by hand."""

import math
from pathlib import Path

import pytest
import torch

from eunoe.methods.fedavg import FedAvg
from eunoe.methods.fedgkd import FedGKD
from tests.methods.helpers import Normed, Trial, random_parts

ONE = [([[1.0]], [0])]
PARTS = random_parts([7, 12], 3, 4)
STEP = {"steps": 1, "lr": 0.5, "batch_size": 0}


def test_three_rounds_by_hand(tmp_path: Path) -> None:
    # With weights (v, -v), class 0 has probability p = 1 / (1 + e^(-2v)). In round 2 the teacher is the model
    # itself, in round 3 the mean of those after rounds 1 and 2; gamma/2 = 1/5 of p - p(teacher) is added.
    def p(v: float) -> float:
        return 1 / (1 + math.exp(-2 * v))

    first = 0.25
    second = first + 0.5 * (1 - p(first))
    third = second + 0.5 * (1 - p(second)) - 0.1 * (p(second) - p((first + second) / 2))
    trial = Trial(tmp_path, ONE, FedGKD(gamma=0.4), training=STEP)
    for expected in (first, second, third):
        trial.rounds()
        assert trial.parameters.tolist() == pytest.approx([expected, -expected], rel=1e-12)


def test_temperature_softens_both_and_keeps_the_gradients_size(tmp_path: Path) -> None:
    # tau^2 KL at tau = 2 has the gradient 2 (p - p(teacher)) at half the logits.
    trial = Trial(tmp_path, ONE, FedGKD(gamma=0.4, temperature=2), training=STEP).rounds(2)
    v, teacher = trial.parameters[0].item(), (trial.parameters[0].item() + 0.25) / 2
    own, soft, theirs = (1 / (1 + math.exp(-x)) for x in (2 * v, v, teacher))
    expected = v + 0.5 * (1 - own) - 0.5 * 0.2 * 2 * (soft - theirs)
    assert trial.rounds().parameters[0].item() == pytest.approx(expected, rel=1e-12)


def test_the_first_round_is_fedavgs(tmp_path: Path) -> None:
    training = {"epochs": 2, "lr": 0.2, "batch_size": 4}
    mine, plain = (
        Trial(tmp_path / type(method).__name__, PARTS, method, classes=4, training=training).rounds()
        for method in (FedGKD(gamma=5), FedAvg())
    )
    assert torch.equal(mine.parameters, plain.parameters)
    assert not torch.equal(mine.rounds().parameters, plain.rounds().parameters)


def test_the_teacher_is_the_mean_of_the_last_models(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trial = Trial(tmp_path, PARTS, FedGKD(models=2), model=Normed(), classes=4, training=STEP)
    assert not trial.broadcast().shared
    models = [trial.rounds().run_state.weights for _ in range(3)]
    shared = trial.broadcast().shared
    for name in ("parameters", "float_buffers"):
        mean = (getattr(models[1], name) + getattr(models[2], name)) / 2
        torch.testing.assert_close(shared[name], mean, rtol=0, atol=1e-15)
