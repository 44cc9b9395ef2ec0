"""Averaging of classifier rows by label: each row by hand, and FedAvg where every client has every label."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from eunoe.core.flat_model import FlatModel
from eunoe.errors import InputError
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.labelwise import Labelwise, by_row
from tests.helpers import Net, make_simulation
from tests.methods.helpers import Trial

# Client 0 has labels 0 and 1, client 1 has 1 and 2, nobody has 3.
PARTS: list[tuple[Any, Any]] = [
    ([[1.0], [2.0]], [0, 1]),
    ([[1.0], [-1.0], [0.5], [3.0], [1.0], [2.0]], [1, 2, 2, 1, 1, 2]),
]
TRAINING = {"epochs": 2, "batch_size": 2, "lr": 0.3, "weight_decay": 0.1}


def changes(folder: Path) -> list[Tensor]:
    """What each client's plain training changes, from weights that are not zero."""
    trial = trained(folder, FedAvg())
    return [trial.client(k)[0].weights.parameters - trial.parameters for k in range(2)]


def trained(folder: Path, method: Any) -> Trial:
    trial = Trial(folder, PARTS, method, classes=4, training=TRAINING)
    trial.run_state.weights.parameters.copy_(torch.tensor([0.5, -0.25, 0.125, 1.0]))
    return trial


@pytest.mark.parametrize(("weighting", "share"), [("samples", 0.25), ("uniform", 0.5)])
def test_each_row_is_the_mean_over_its_owners(weighting: Any, share: float, tmp_path: Path) -> None:
    one, two = changes(tmp_path / "plain")
    trial = trained(tmp_path / "mine", Labelwise(weighting=weighting))
    start = trial.parameters.clone()
    moved = trial.rounds().parameters - start
    shared = share * one[1] + (1 - share) * two[1]
    expected = torch.stack([one[0], shared, two[2], torch.zeros_like(shared)])
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-14)
    # With weight decay, plain averaging moves what nobody has.
    assert (share * one[3] + (1 - share) * two[3]).abs() > 0.01


def test_with_all_labels_everywhere_it_is_fedavg_to_the_bit(tmp_path: Path) -> None:
    rng = torch.Generator().manual_seed(0)
    parts = [(torch.randn(size, 5, generator=rng), torch.arange(size) % 3) for size in (3, 7, 11)]
    results = []
    for method in (Labelwise(), FedAvg()):
        torch.manual_seed(1)
        trial = Trial(
            tmp_path / type(method).__name__, parts, method, model=Net(), classes=3, training=TRAINING
        )
        results.append(trial.rounds(3).parameters)
    assert torch.equal(*results)


def test_only_the_last_layer_of_the_classifier_has_rows() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(2, 3)
            self.classifier = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))

    model = FlatModel(Deep())
    numbers = by_row(model, torch.tensor([0.0, 0.5, 0.25]))
    found = dict(zip(model.names, model.views(numbers), strict=True))
    assert found["classifier.2.bias"].tolist() == [0.0, 0.5, 0.25]
    assert found["classifier.2.weight"].tolist() == [[0.0] * 3, [0.5] * 3, [0.25] * 3]
    for name in ("body.weight", "body.bias", "classifier.0.weight", "classifier.0.bias"):
        assert bool((found[name] == 1).all())


def test_what_it_sends_is_a_number_per_class(tmp_path: Path) -> None:
    plain, mine = (trained(tmp_path / str(m), m).rounds().record for m in (FedAvg(), Labelwise()))
    assert mine["bytes_up"] - plain["bytes_up"] == 2 * 4 * 8
    assert mine["bytes_down"] == plain["bytes_down"]


def test_it_needs_a_classifier() -> None:
    with pytest.raises(InputError, match="labelwise requires a model"):
        make_simulation(net=nn.Linear(5, 3), method="labelwise")


def test_a_mask_by_signs_is_refused() -> None:
    with pytest.raises(InputError, match=r"server_optimizer\.gma: leave it out"):
        make_simulation(method="labelwise", server_optimizer={"name": "sgd", "gma": 0.4})
