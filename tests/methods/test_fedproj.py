"""FedProj: projected steps by hand, the ensemble and the distillation at the server."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from eunoe.core.flat_model import FlatModel
from eunoe.errors import InputError
from eunoe.losses.distillation import divergence
from eunoe.methods.fedproj import FedProj
from eunoe.server.updates import Broadcast
from tests.helpers import train, train_one
from tests.methods.helpers import Direct, softmax_gradient
from tests.public_helpers import CLASSES, INPUTS, Rounds, blobs, federation, make_simulation

TRAINING: dict[str, Any] = {"steps": 2, "batch_size": 0, "lr": 0.3}


def gradients(weights: Tensor, inputs: Tensor, targets: Tensor, tau: float) -> Tensor:
    """The gradient of the mean KL of a linear model from fixed logits, written out."""
    gap = torch.softmax(inputs @ weights.view(CLASSES, INPUTS).T / tau, 1) - torch.softmax(targets / tau, 1)
    return (gap.T @ inputs / tau / len(inputs)).flatten()


def test_a_step_with_and_one_without_projection_by_hand() -> None:
    method = FedProj(temperature=2.0)
    simulation = make_simulation(federation(), "fedavg", training=TRAINING)
    model = FlatModel(Direct(INPUTS, CLASSES), torch.float64)
    simulation = replace(simulation, method=method, model=model)
    rng = torch.Generator().manual_seed(4)
    inputs = torch.randn(13, INPUTS, generator=rng, dtype=torch.float64)
    logits = 3 * torch.randn(13, CLASSES, generator=rng, dtype=torch.float64)
    shared = {"inputs": inputs.flatten(), "logits": logits.flatten()}
    start = model.weights.copy()
    update, _ = train_one(simulation.in_round(1), 0, Broadcast(1, start, shared), {})
    x, y = simulation.federation.data.train.x[:9], simulation.federation.data.train.y[:9]
    weights, projected = torch.zeros(CLASSES * INPUTS, dtype=torch.float64), 0
    # The client's 9 samples make its batch; the second batch of the memory goes on after the first 9 of 13.
    for rows in (list(range(9)), [9, 10, 11, 12, 0, 1, 2, 3, 4]):
        step, kept = softmax_gradient(weights, x, y), gradients(weights, inputs[rows], logits[rows], 2.0)
        if step @ kept < 0:
            step, projected = step - step @ kept / (kept @ kept) * kept, projected + 1
            assert abs(float(step @ kept)) < 1e-15
        weights = weights - 0.3 * step
    assert projected == 1
    torch.testing.assert_close(update.weights.parameters, weights, rtol=0, atol=1e-14)


def test_the_ensemble_is_the_mean_of_the_rounds_models(tmp_path: Path) -> None:
    values = {"name": "fedproj", "memory": 7, "server_epochs": 0}
    simulation = make_simulation(federation(), values, training=TRAINING)
    fresh = Rounds(make_simulation(federation(), values, training=TRAINING), tmp_path / "fresh")
    models = [u.weights for u in train(fresh.engine, [0, 1, 2], Broadcast(1, fresh.run_state.weights))]
    rounds = Rounds(simulation, tmp_path / "run").go()
    trainer = simulation.context.trainer
    assert trainer is not None
    public = trainer.public("train")
    mean = torch.stack([trainer.outputs(model, public) for model in models]).mean(0)
    torch.testing.assert_close(rounds.run_state.server["logits"], mean, rtol=0, atol=1e-14)
    # The memory is a part of it, another one in each round.
    sent = [
        simulation.method.broadcast(rounds.run_state.server, simulation.in_round(k).context)
        for k in (2, 2, 3)
    ]
    assert torch.equal(sent[0]["logits"], sent[1]["logits"])
    assert not torch.equal(sent[0]["logits"], sent[2]["logits"])
    inputs = public.inputs(torch.arange(20))
    assert isinstance(inputs, Tensor)
    for x, logits in zip(sent[0]["inputs"].view(7, -1), sent[0]["logits"].view(7, -1), strict=True):
        (row,) = (inputs == x).all(1).nonzero()
        torch.testing.assert_close(logits, mean[row[0]], rtol=0, atol=1e-14)


def test_the_server_brings_the_average_nearer_to_the_ensemble(tmp_path: Path) -> None:
    distances = []
    training, model = {**TRAINING, "steps": 20}, {"name": "mlp", "hidden": [5], "dtype": "float64"}
    for epochs in (0, 20):
        method = {"name": "fedproj", "server_epochs": epochs, "server_lr": 0.01, "server_batch_size": 5}
        simulation = make_simulation(federation(), method, training=training, model=model)
        rounds = Rounds(simulation, tmp_path / str(epochs)).go()
        trainer = simulation.context.trainer
        assert trainer is not None
        ours = trainer.outputs(rounds.run_state.weights, trainer.public("train"))
        distances.append(float(divergence(rounds.run_state.server["logits"], ours).mean()))
    assert distances[1] < 0.5 * distances[0]


def test_it_needs_a_public_set_without_labels() -> None:
    with pytest.raises(InputError, match="fedproj needs a public set"):
        make_simulation(replace(federation(), public=None), "fedproj")
    make_simulation(federation(foreign=blobs(28, 7)), "fedproj")
