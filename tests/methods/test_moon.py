"""MOON: the contrast by hand, its negatives, and the edge cases that break others."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from eunoe.core.flat_model import Weights
from eunoe.errors import InputError
from eunoe.methods.context import Batch
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.moon import Moon
from tests.helpers import begin, train_one
from tests.methods.helpers import Normed, Trial, random_parts


class Turned(nn.Module):
    """Two features x W^T that the classifier takes as logits."""

    def __init__(self, weight: Any = ((1.0, 0.0), (0.0, 1.0))) -> None:
        super().__init__()
        self.body = nn.Linear(2, 2, bias=False)
        self.body.weight.data = torch.tensor(weight)
        self.classifier = nn.Identity()

    def features(self, x: Tensor) -> Tensor:
        return self.body(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


PARTS = random_parts([6, 9], 2, 2)
TRAINING: dict[str, Any] = {"epochs": 3, "lr": 0.2, "batch_size": 4}


def state_of(trial: Trial, weight: Any) -> dict[str, Tensor]:
    return {
        "parameters": torch.tensor(weight, dtype=torch.float64).flatten(),
        "float_buffers": torch.empty(0, dtype=torch.float64),
        "seen": torch.ones(1, dtype=torch.float64),
    }


def test_loss_by_hand(tmp_path: Path) -> None:
    # Received: x itself, (1, 0). Last: (0, 1). Now: (1, 1). Similarities sqrt(1/2) and sqrt(1/2) but for the
    # second case, where now is (2, 0): 1 and 0.
    trial = Trial(tmp_path, PARTS, Moon(mu=3.0, tau=0.5), model=Turned())
    client, _ = begin(trial.simulation, 0, trial.broadcast(), state_of(trial, [[0.0, 1.0], [1.0, 0.0]]))
    client.data = lambda rows: (
        torch.tensor([[1.0, 0.0]] * len(rows), dtype=torch.float64),
        torch.zeros(len(rows)),
    )  # type: ignore[assignment]
    trial.simulation.method.begin(client)
    batch = Batch(torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.tensor([0]), torch.tensor([0]))
    for now, logits, contrast in (
        ([1.0, 0.0, 1.0, 0.0], (1.0, 1.0), math.log(2)),
        ([2.0, 0.0, 0.0, 0.0], (2.0, 0.0), -math.log(math.exp(2) / (math.exp(2) + 1))),
    ):
        client.weights.copy_(torch.tensor(now))
        plain = -math.log(math.exp(logits[0]) / sum(math.exp(z) for z in logits))
        value = trial.simulation.method.loss(client, batch)
        assert value.shape == (1,)
        assert value.item() == pytest.approx(plain + 3 * contrast, rel=1e-12)


def test_first_participation_is_fedavg(tmp_path: Path) -> None:
    contrasted = Trial(tmp_path / "a", PARTS, Moon(mu=5.0), model=Turned(), training=TRAINING).rounds()
    plain = Trial(tmp_path / "b", PARTS, FedAvg(), model=Turned(), training=TRAINING).rounds()
    assert torch.equal(contrasted.parameters, plain.parameters)
    contrasted.rounds()
    plain.rounds()
    assert (contrasted.parameters - plain.parameters).abs().max() > 1e-4


def test_last_model_like_the_received_one_pulls_nowhere(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "a", PARTS, Moon(mu=5.0), model=Turned(), training=TRAINING)
    same = state_of(trial, [[1.0, 0.0], [0.0, 1.0]])
    contrasted, _ = train_one(trial.simulation, 1, trial.broadcast(), same)
    plain, _ = Trial(tmp_path / "b", PARTS, FedAvg(), model=Turned(), training=TRAINING).client(1)
    torch.testing.assert_close(contrasted.weights.parameters, plain.weights.parameters, rtol=0, atol=1e-14)


def test_client_keeps_its_own_last_model(tmp_path: Path) -> None:
    trial = Trial(tmp_path, PARTS, Moon(), model=Turned(), training=TRAINING).rounds()
    update, _ = trial.client(0)
    trial.rounds()
    state = trial.states.load(0)
    assert torch.equal(state["parameters"], update.weights.parameters)
    assert state["seen"].item() == 1


def test_last_model_has_its_own_statistics(tmp_path: Path) -> None:
    trial = Trial(tmp_path, random_parts([6], 3, 4), Moon(), model=Normed(), classes=4, training=TRAINING)
    start = trial.run_state.weights
    state = {
        "parameters": start.parameters,
        "float_buffers": 1 + start.float_buffers,
        "seen": torch.ones(1).double(),
    }
    client, _ = begin(trial.simulation, 0, trial.broadcast(), state)
    trial.simulation.method.begin(client)
    x, y = client.data(torch.arange(6))
    batch = Batch(x, y, torch.arange(6))
    for name, float_buffers in (("received", start.float_buffers), ("last", 1 + start.float_buffers)):
        trial.simulation.model.load(Weights(start.parameters, float_buffers, start.int_buffers))
        with trial.simulation.model.evaluating(), torch.no_grad():
            expected = trial.simulation.model.module.features(x)
        torch.testing.assert_close(client.frozen(name, batch), expected, rtol=0, atol=1e-15)
    kept = trial.client(0)[1]
    assert torch.equal(kept["float_buffers"], trial.simulation.model.float_buffers)
    assert not torch.equal(kept["float_buffers"], start.float_buffers)


def test_batches_of_one_and_features_of_zero(tmp_path: Path) -> None:
    part = (torch.zeros(3, 2, dtype=torch.float64), torch.tensor([0, 1, 0]))
    training = {"epochs": 1, "batch_size": 2, "lr": 0.1}
    trial = Trial(tmp_path, [part], Moon(), model=Turned(), training=training).rounds(2)
    assert trial.record["steps"] == [2]
    assert bool(torch.isfinite(trial.parameters).all())


def test_frozen_networks_run_once(tmp_path: Path) -> None:
    trial = Trial(tmp_path, PARTS, Moon(), model=Turned(), training=TRAINING)
    assert trial.client(0)[0].forwards == 3 * 6 + 6
    assert trial.rounds().client(0)[0].forwards == 3 * 6 + 2 * 6


def test_models_without_features_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="features"):
        Trial(tmp_path, PARTS, Moon(), model=nn.Linear(2, 2))
