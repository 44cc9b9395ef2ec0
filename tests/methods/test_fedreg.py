"""FedReg against the same steps written out, and what its projections promise."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from eunoe.methods.context import Batch, ClientContext
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.fedreg import FedReg
from tests.helpers import begin
from tests.methods.helpers import Direct, Normed, Trial, random_parts, softmax_gradient

PARTS = random_parts([8, 6], 3, 4)
FULL: dict[str, Any] = {"steps": 4, "lr": 0.5, "batch_size": 0}


def started(seed: int = 7) -> Direct:
    model = Direct(3, 4)
    torch.nn.init.normal_(model.classifier.weight, generator=torch.Generator().manual_seed(seed))
    return model


def soft_gradient(weights: Tensor, x: Tensor, target: Tensor) -> Tensor:
    p = torch.softmax(x @ weights.view(4, 3).T, 1) - target
    return (p.T @ x / len(x)).flatten()


def ascended(weights: Tensor, x: Tensor, y: Tensor, eta: float, steps: int) -> Tensor:
    x, w = x.clone(), weights.view(4, 3)
    for _ in range(steps):
        p = torch.softmax(x @ w.T, 1)
        p[torch.arange(len(y)), y] -= 1
        x = x + eta * (p @ w).sign()
    return x


def written_out(start: Tensor, x: Tensor, y: Tensor, gamma: float, lr: float, steps: int) -> Tensor:
    """Full-batch FedReg with ps_eta 0.2, pt_eta 0.01 and 3 ascent steps."""
    pseudo, near = ascended(start, x, y, 0.2, 3), ascended(start, x, y, 0.01, 3)
    target = torch.softmax(pseudo @ start.view(4, 3).T, 1)
    theta = start.clone()
    for _ in range(steps):
        theta = theta - lr * softmax_gradient(gamma * theta + (1 - gamma) * start, x, y)
        felt = 0.5 * theta + 0.5 * start
        g2, g3 = soft_gradient(felt, pseudo, target), softmax_gradient(felt, near, y)
        d = theta - start
        w = max(0.0, float(d @ g2 / (g2 @ g2 + 1e-30)))
        w1 = max(0.0, float((d - w * g2) @ g3 / (g3 @ g3 + 1e-30)))
        theta = theta - w * g2 - w1 * g3
    return theta


@pytest.mark.parametrize("gamma", [0.25, 1.0])
def test_steps_written_out(gamma: float, tmp_path: Path) -> None:
    method = FedReg(gamma=gamma, ps_eta=0.2, pt_eta=0.01, ascent_steps=3)
    trial = Trial(tmp_path, PARTS, method, model=started(), classes=4, training=FULL)
    for client in range(2):
        found = trial.client(client)[0].weights.parameters
        expected = written_out(trial.parameters, *PARTS[client], gamma, 0.5, 4)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_perturbation_is_a_hundredth_by_default(tmp_path: Path) -> None:
    models = []
    for name, options in (("a", {}), ("b", {"pt_eta": 0.003})):
        trial = Trial(
            tmp_path / name, PARTS, FedReg(ps_eta=0.3, **options), model=started(), classes=4, training=FULL
        )
        models.append(trial.client(0)[0].weights.parameters)
    assert torch.equal(*models)


def test_passes_are_counted(tmp_path: Path) -> None:
    trial = Trial(tmp_path, PARTS, FedReg(ascent_steps=3), model=started(), classes=4, training=FULL)
    update, _ = trial.client(0)
    # Four steps with three gradients each, and two ascents of three steps; the targets are asked for once.
    assert update.backwards == 8 * (4 * 3 + 2 * 3)
    assert update.forwards == update.backwards + 8


def prepared(folder: Path, method: FedReg) -> tuple[ClientContext, Batch]:
    trial = Trial(folder, PARTS, method, model=started(), classes=4, training=FULL)
    client, _ = begin(trial.simulation, 0, trial.broadcast(), {})
    method.begin(client)
    index = torch.arange(8)
    return client, Batch(*client.data(index), index)


def test_move_does_not_raise_the_pseudo_loss(tmp_path: Path) -> None:
    method = FedReg(perturbed=False, ps_eta=0.5)
    client, batch = prepared(tmp_path, method)
    projected = 0
    for _ in range(12):
        before, start = client.weights.clone(), client.start.parameters
        gradient = softmax_gradient(torch.lerp(start, before, 0.5), batch.x, batch.y)
        felt = torch.lerp(start, before - 0.5 * gradient, 0.5)
        pseudo, target = client.rows["pseudo"], client.rows["target"]
        g2 = soft_gradient(felt, pseudo, target)
        overlap = float((before - 0.5 * gradient - start) @ g2)
        method.step(client, batch)
        after = float((client.weights - start) @ g2)
        projected += overlap > 0
        assert after == pytest.approx(min(overlap, 0.0), abs=1e-13)
    assert projected > 0


def test_unmoved_data_have_the_gradients_of_real_data(tmp_path: Path) -> None:
    method = FedReg(ps_eta=0.0, gamma=1.0)
    client, batch = prepared(tmp_path, method)
    assert torch.equal(client.rows["pseudo"], batch.x)
    assert torch.equal(client.rows["perturbed"], batch.x)
    expected = torch.softmax(batch.x @ client.start.parameters.view(4, 3).T, 1)
    torch.testing.assert_close(client.rows["target"], expected)


def test_making_data_changes_neither_the_samples_nor_the_model(tmp_path: Path) -> None:
    x = PARTS[0][0].clone()
    client, batch = prepared(tmp_path, FedReg(ps_eta=1.0))
    assert torch.equal(batch.x, x)
    assert torch.equal(client.weights, client.start.parameters)
    assert not torch.equal(client.rows["pseudo"], x)


def test_batch_norm_statistics_are_those_of_real_data(tmp_path: Path) -> None:
    weights = []
    for name, options in (("both", {}), ("none", {"pseudo": False, "perturbed": False})):
        torch.manual_seed(0)
        training = {**FULL, "steps": 1}
        trial = Trial(
            tmp_path / name,
            PARTS,
            FedReg(ps_eta=1.0, **options),
            model=Normed(),
            classes=4,
            training=training,
        )
        weights.append(trial.client(0)[0].weights)
    assert torch.equal(weights[0].float_buffers, weights[1].float_buffers)
    assert weights[0].int_buffers.tolist() == [1]


def test_step_without_overlap_is_the_plain_one(tmp_path: Path) -> None:
    """A first step from the received model along its own gradient meets g_p with a negative overlap."""
    method = FedReg(pseudo=False, pt_eta=0.0)
    client, batch = prepared(tmp_path, method)
    expected = client.weights - 0.5 * softmax_gradient(client.weights, batch.x, batch.y)
    method.step(client, batch)
    torch.testing.assert_close(client.weights, expected, rtol=0, atol=1e-14)


def test_weight_decay_belongs_to_the_first_step(tmp_path: Path) -> None:
    training = {**FULL, "weight_decay": 0.1}
    method = FedReg(gamma=1.0, pseudo=False, perturbed=False)
    models = [
        Trial(tmp_path / n, PARTS, m, model=started(), classes=4, training=training).rounds(2).parameters
        for n, m in (("a", method), ("b", FedAvg(weighting="uniform")))
    ]
    torch.testing.assert_close(models[0], models[1], rtol=0, atol=1e-15)
