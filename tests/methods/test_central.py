"""Central training: the same as federated training where that must be, and an ordinary loop otherwise."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from eunoe.errors import InputError
from tests.public_helpers import CLASSES, INPUTS, Rounds, after, blobs, federation, make_simulation

WHOLE: dict[str, Any] = {"epochs": 1, "batch_size": 0, "lr": 0.3, "weight_decay": 0.01}


def test_fedavg_of_single_full_batches_is_central_gradient_descent(tmp_path: Path) -> None:
    on = federation(foreign=blobs(28, 7))
    central = after(4, tmp_path, on, "central", training=WHOLE)
    torch.testing.assert_close(central, after(4, tmp_path, on, "fedavg", training=WHOLE), atol=1e-12, rtol=0)


@pytest.mark.parametrize("optimizer", [{"momentum": 0.9}, {"optimizer": "adam"}, {"optimizer": "adamw"}])
def test_rounds_of_one_epoch_are_an_ordinary_loop(optimizer: dict[str, Any], tmp_path: Path) -> None:
    """Against torch's own optimizer, which keeps its momenta over all steps."""
    on, training = federation(), {**WHOLE, "lr": 0.1, **optimizer}
    ours = Rounds(make_simulation(on, {"name": "central", "on": "public"}, training=training), tmp_path)
    model = nn.Linear(INPUTS, CLASSES).double()
    weight, bias = ours.parameters[: INPUTS * CLASSES], ours.parameters[INPUTS * CLASSES :]
    with torch.no_grad():
        model.weight.copy_(weight.view(CLASSES, INPUTS))
        model.bias.copy_(bias)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if "momentum" in optimizer:
        loop: Any = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    else:
        loop = kinds[optimizer["optimizer"]](model.parameters(), lr=0.1, weight_decay=0.01)
    x, y = on.data.train.x[27:47], on.data.train.y[27:47]
    for _ in range(5):
        loop.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        loop.step()
    expected = torch.cat([model.weight.detach().flatten(), model.bias.detach()])
    torch.testing.assert_close(ours.go(5).parameters, expected, atol=1e-10, rtol=0)


def test_no_client_takes_part_and_nothing_travels(tmp_path: Path) -> None:
    record = Rounds(make_simulation(federation(), "central", training=WHOLE), tmp_path).go().records[0]
    assert record["clients"] == []
    assert record["bytes_up"] == record["bytes_down"] == 0
    # All clients' samples and the public training samples, once.
    assert record["server"] == {"steps": 1, "forwards": 47, "backwards": 47}


def test_samples_are_augmented_as_the_clients_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(make_simulation(federation(), "central", training=WHOLE), tmp_path)
    black = object()
    # A crop's border is black, as at the clients.
    rounds.simulation.federation.preprocess.black = black  # type: ignore[assignment]
    seen: list[int] = []

    def augment(x: torch.Tensor, options: object, rng: torch.Generator, border: object) -> torch.Tensor:
        assert options is rounds.simulation.augment
        assert border is black
        seen.append(len(x))
        return torch.zeros_like(x)

    monkeypatch.setattr("eunoe.server.trainer.augment_batch", augment)
    start = rounds.parameters.clone()
    rounds.go()
    assert seen == [47]
    # Zeros teach a linear model's bias alone.
    weights = slice(0, INPUTS * CLASSES)
    torch.testing.assert_close(rounds.parameters[weights], start[weights] * (1 - 0.3 * 0.01))


def test_the_learning_rate_falls_by_round(tmp_path: Path) -> None:
    method, training = {"name": "central", "on": "public"}, {**WHOLE, "weight_decay": 0.0}
    slow = Rounds(
        make_simulation(federation(), method, training={**training, "lr_decay": 0.5}), tmp_path
    ).go()
    fast = Rounds(make_simulation(federation(), method, training=training), tmp_path).go()
    assert torch.equal(slow.parameters, fast.parameters)
    before = slow.parameters.clone()
    torch.testing.assert_close(slow.go().parameters - before, (fast.go().parameters - before) / 2)


def test_what_it_needs() -> None:
    with pytest.raises(InputError, match="labels"):
        make_simulation(federation(foreign=blobs(40, 7)), {"name": "central", "on": "public"})
