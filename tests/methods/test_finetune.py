"""FedAvg with fine-tuning of the average on the public set."""

from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.errors import InputError
from tests.public_helpers import Rounds, after, blobs, federation, make_simulation

TRAINING: dict[str, Any] = {"epochs": 2, "batch_size": 4, "lr": 0.2}


def test_without_epochs_it_is_fedavg(tmp_path: Path) -> None:
    ours = after(3, tmp_path, federation(), {"name": "finetune", "server_epochs": 0}, training=TRAINING)
    assert torch.equal(ours, after(3, tmp_path, federation(), "fedavg", training=TRAINING))


def test_it_is_fedavg_and_then_central_training_on_the_public_set(tmp_path: Path) -> None:
    method = {"name": "finetune", "server_epochs": 1, "server_lr": 0.1, "server_batch_size": 6}
    ours = after(1, tmp_path, federation(), method, training=TRAINING)
    central = Rounds(
        make_simulation(
            federation(),
            {"name": "central", "on": "public"},
            training={"epochs": 1, "lr": 0.1, "momentum": 0.9, "batch_size": 6},
        ),
        tmp_path,
    )
    central.run_state.weights = (
        Rounds(make_simulation(federation(), "fedavg", training=TRAINING), tmp_path).go().run_state.weights
    )
    assert torch.equal(ours, central.go().parameters)


@pytest.mark.parametrize(("patience", "epochs"), [(3, 4), (8, 9), (40, 30)])
def test_it_stops_after_so_many_epochs_without_a_better_model(
    patience: int, epochs: int, tmp_path: Path
) -> None:
    method = {"name": "finetune", "server_lr": 1e-12, "server_patience": patience}
    record = Rounds(make_simulation(federation(), method, training=TRAINING), tmp_path).go().records[0]
    # All 20 public samples are one batch; the first epoch is the best, as none is better.
    assert record["server"]["steps"] == epochs
    assert record["server"]["best_step"] == 1


def test_what_it_needs() -> None:
    with pytest.raises(InputError, match="labels"):
        make_simulation(federation(foreign=blobs(40, 7)), "finetune")
