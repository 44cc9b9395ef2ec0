"""FedProx and SCAFFOLD against pfl-research, on the same clients.

`make test-all` runs this in an environment of its own: pfl wants older packages than Ray and Flower do.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from eunoe.methods.base import Method
from eunoe.methods.fedprox import FedProx
from eunoe.methods.scaffold import Scaffold
from eunoe.server.updates import Broadcast
from tests.helpers import train_one
from tests.methods.helpers import Direct, Trial, random_parts

pytestmark = pytest.mark.slow

PARTS = random_parts([6, 9], 3, 4)
LR, EPOCHS = 0.3, 5


class Peer(Direct):
    """The network as pfl wants it: with a loss of its own."""

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, float]:
        return {}


def pfl_client(client: int, start: Tensor) -> tuple[Any, Any, Any]:
    """A pfl model at these weights, a client's data and its training parameters."""
    from pfl.data.dataset import Dataset
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    module = Peer(3, 4).double()
    module.classifier.weight.data = start.view(4, 3).clone()
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    params = NNTrainHyperParams(local_learning_rate=LR, local_num_epochs=EPOCHS, local_batch_size=None)
    return model, Dataset(raw_data=list(PARTS[client]), user_id=str(client)), params


def ours(folder: Path, method: Method, start: Tensor) -> Trial:
    training = {"epochs": EPOCHS, "lr": LR, "batch_size": 0}
    trial = Trial(folder, PARTS, method, classes=4, training=training)
    trial.parameters.copy_(start)
    return trial


def random_vector(seed: int) -> Tensor:
    return torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("client", [0, 1])
def test_fedprox(client: int, tmp_path: Path) -> None:
    from pfl.internal.bridge.pytorch.proximal import PyTorchFedProxBridge

    start = random_vector(1)
    model, data, params = pfl_client(client, start)
    PyTorchFedProxBridge.do_proximal_sgd(model, data, params, mu=0.7)
    theirs = model.pytorch_model.classifier.weight.detach().flatten()
    mine = ours(tmp_path, FedProx(mu=0.7), start).client(client)[0].weights.parameters
    # The norm in their penalty has no gradient at the start, where it is zero anyway.
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-13)


@pytest.mark.parametrize("client", [0, 1])
def test_scaffold(client: int, tmp_path: Path) -> None:
    from pfl.internal.bridge.pytorch.scaffold import PyTorchSCAFFOLDBridge
    from pfl.stats import MappedVectorStatistics

    start, everyones, own = (random_vector(seed) for seed in (2, 3, 4))
    model, data, params = pfl_client(client, start)
    controls = [
        MappedVectorStatistics({"classifier.weight": control.view(4, 3)}) for control in (own, everyones)
    ]
    PyTorchSCAFFOLDBridge.do_control_variate_sgd(model, data, params, *controls)
    theirs = model.pytorch_model.classifier.weight.detach().flatten()
    trial = ours(tmp_path, Scaffold(), start)
    broadcast = Broadcast(1, trial.run_state.weights, {"control": everyones})
    update, state = train_one(trial.simulation, client, broadcast, {"control": own})
    torch.testing.assert_close(update.weights.parameters, theirs, rtol=0, atol=1e-13)
    # Option II of the paper from their weights.
    expected = own - everyones + (start - theirs) / (EPOCHS * LR)
    torch.testing.assert_close(state["control"], expected, rtol=0, atol=1e-12)
