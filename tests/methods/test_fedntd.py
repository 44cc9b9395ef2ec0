"""FedNTD: its loss by hand, and what it leaves alone."""

import math
from pathlib import Path

import pytest
import torch

from eunoe.errors import InputError
from eunoe.methods.context import Batch
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.fedntd import FedNTD
from tests.helpers import begin
from tests.methods.helpers import Direct, Trial, random_parts

ONE = [([[1.0]], [0])]


def test_loss_by_hand(tmp_path: Path) -> None:
    # Teacher (0, 0, 0): 1/2 each on the classes that are not 0. Student (5, log 3, 0): 3/4 and 1/4.
    trial = Trial(tmp_path, ONE, FedNTD(beta=2.0), classes=3)
    client, _ = begin(trial.simulation, 0, trial.broadcast(), {})
    trial.simulation.method.begin(client)
    client.weights.copy_(torch.tensor([5.0, math.log(3), 0.0], dtype=torch.float64))
    batch = Batch(torch.ones(1, 1, dtype=torch.float64), torch.tensor([0]), torch.tensor([0]))
    plain = -math.log(math.exp(5) / (math.exp(5) + 3 + 1))
    kept = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert trial.simulation.method.loss(client, batch).item() == pytest.approx(plain + 2 * kept, rel=1e-13)


def test_temperature_and_its_square(tmp_path: Path) -> None:
    # At tau = 2 the student's (log 9, 0) are (log 3, 0).
    trial = Trial(tmp_path, ONE, FedNTD(tau=2.0), classes=3)
    client, _ = begin(trial.simulation, 0, trial.broadcast(), {})
    trial.simulation.method.begin(client)
    client.weights.copy_(torch.tensor([0.0, math.log(9), 0.0], dtype=torch.float64))
    batch = Batch(torch.ones(1, 1, dtype=torch.float64), torch.tensor([0]), torch.tensor([0]))
    kept = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    expected = math.log(11) + 4 * kept
    assert trial.simulation.method.loss(client, batch).item() == pytest.approx(expected, rel=1e-13)


def test_one_step_is_fedavg(tmp_path: Path) -> None:
    """At the received model the term and its gradient are zero."""
    parts = random_parts([6, 9], 3, 4)
    training = {"steps": 1, "lr": 0.5, "batch_size": 0}
    models = []
    for method in (FedNTD(beta=5.0, tau=3.0), FedAvg()):
        model = Direct(3, 4)
        torch.nn.init.normal_(model.classifier.weight, generator=torch.Generator().manual_seed(0))
        trial = Trial(
            tmp_path / method.__class__.__name__, parts, method, model=model, classes=4, training=training
        )
        models.append(trial.rounds(2).parameters)
    torch.testing.assert_close(models[0], models[1], rtol=0, atol=1e-15)


def test_later_steps_are_not(tmp_path: Path) -> None:
    parts = random_parts([6, 9], 3, 4)
    training = {"steps": 3, "lr": 0.5, "batch_size": 0}
    kept, plain = (
        Trial(tmp_path / type(method).__name__, parts, method, classes=4, training=training)
        .rounds()
        .parameters
        for method in (FedNTD(), FedAvg())
    )
    assert (kept - plain).abs().max() > 1e-3


def test_two_classes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least three classes"):
        Trial(tmp_path, ONE, FedNTD())


def test_teacher_runs_once_unless_inputs_are_augmented(tmp_path: Path) -> None:
    parts = random_parts([8], 3, 4)
    training = {"epochs": 5, "batch_size": 4}
    trial = Trial(tmp_path, parts, FedNTD(), classes=4, training=training)
    assert trial.client(0)[0].forwards == 5 * 8 + 8
