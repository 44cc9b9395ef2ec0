"""FedSAM against numbers worked by hand."""

import math
from pathlib import Path

import pytest
import torch

from eunoe.engines.client_states import ClientStates
from eunoe.engines.vectorized.engine import Vectorized
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.fedsam import FedSAM
from tests.helpers import train
from tests.methods.helpers import Normed, Trial, random_parts, softmax_gradient

ONE = [([[1.0]], [0])]
PARTS = random_parts([7, 12], 3, 4)


def test_one_step_by_hand(tmp_path: Path) -> None:
    # From (0, 0): gradient (-1/2, 1/2) of norm 1/sqrt 2, so rho = sqrt 2 looks from (-1, 1), where the
    # softmax of class 0 is 1 / (1 + e^2); the step is taken from (0, 0).
    training = {"steps": 1, "lr": 0.5, "batch_size": 0}
    trial = Trial(tmp_path, ONE, FedSAM(rho=math.sqrt(2)), training=training).rounds()
    expected = 0.5 * (1 - 1 / (1 + math.exp(2)))
    assert trial.parameters.tolist() == pytest.approx([expected, -expected], rel=1e-12)
    # The loss before the step is that of (0, 0).
    assert trial.record["loss_before"] == pytest.approx([math.log(2)], rel=1e-12)


def test_momentum_and_weight_decay_are_those_of_the_clients_own_model(tmp_path: Path) -> None:
    training = {"steps": 3, "lr": 0.2, "momentum": 0.5, "weight_decay": 0.1, "batch_size": 0}
    trial = Trial(tmp_path, PARTS, FedSAM(rho=0.3), classes=4, training=training)
    y = moment = torch.zeros(12, dtype=torch.float64)
    for _ in range(3):
        gradient = softmax_gradient(y, *PARTS[0])
        moment = 0.5 * moment + softmax_gradient(y + 0.3 * gradient / gradient.norm(), *PARTS[0]) + 0.1 * y
        y = y - 0.2 * moment
    torch.testing.assert_close(trial.client(0)[0].weights.parameters, y, rtol=0, atol=1e-14)


def test_a_gradient_of_zero_is_no_division_by_it(tmp_path: Path) -> None:
    # Inputs of 0 give logits of 0 whatever the weights are.
    part = [([[0.0]], [0])]
    trial = Trial(tmp_path, part, FedSAM(), training={"steps": 2, "lr": 0.5, "batch_size": 0}).rounds()
    assert trial.parameters.tolist() == [0.0, 0.0]


def test_statistics_are_updated_once_a_step_where_the_client_is(tmp_path: Path) -> None:
    training = {"steps": 1, "lr": 0.2, "batch_size": 4}
    ends = []
    for method in (FedSAM(rho=0.5), FedAvg()):
        torch.manual_seed(0)
        name = type(method).__name__
        trial = Trial(tmp_path / name, PARTS, method, model=Normed(), classes=4, training=training)
        ends.append(trial.client(0)[0].weights)
    assert torch.equal(ends[0].float_buffers, ends[1].float_buffers)
    assert ends[0].int_buffers.tolist() == [1]
    assert not torch.equal(ends[0].parameters, ends[1].parameters)


def test_statistics_are_the_same_under_vmap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    training = {"epochs": 2, "lr": 0.2, "batch_size": 4}
    parts = random_parts([8, 8], 3, 4)
    trial = Trial(tmp_path, parts, FedSAM(rho=0.5), model=Normed(), classes=4, training=training)
    alone = [trial.client(client)[0].weights for client in (0, 1)]
    engine = Vectorized(trial.simulation, ClientStates(tmp_path / "vectorized"))
    for one, update in zip(alone, train(engine, [0, 1], trial.broadcast()), strict=True):
        torch.testing.assert_close(update.weights.parameters, one.parameters, rtol=0, atol=1e-12)
        torch.testing.assert_close(update.weights.float_buffers, one.float_buffers, rtol=0, atol=1e-12)
        assert update.weights.int_buffers.tolist() == one.int_buffers.tolist() == [4]
    # No client fell back to training alone, of which the engine would warn.
    assert "one after the other" not in caplog.text + capsys.readouterr().out


def test_a_step_passes_twice(tmp_path: Path) -> None:
    training = {"steps": 3, "lr": 0.2, "batch_size": 4}
    updates = [
        Trial(tmp_path / type(method).__name__, PARTS, method, classes=4, training=training).client(0)[0]
        for method in (FedSAM(), FedAvg())
    ]
    assert updates[0].backwards == 2 * updates[1].backwards
