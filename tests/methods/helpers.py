"""Small federations and a round loop that the tests of methods take apart."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eunoe.config.schema import make_config
from eunoe.core.flat_model import Weights
from eunoe.data.federation import Federation
from eunoe.data.samples import DataSet, Samples
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.methods.base import Method
from eunoe.server.optimizers import ServerOptimizer
from eunoe.server.updates import Broadcast, Update
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.loop import run_round
from eunoe.store.checkpoints import start_state
from tests.helpers import train_one


class Direct(nn.Module):
    """Logits x W^T from W = 0: with one input, one parameter per class."""

    def __init__(self, inputs: int = 1, classes: int = 2) -> None:
        super().__init__()
        self.classifier = nn.Linear(inputs, classes, bias=False)
        nn.init.zeros_(self.classifier.weight)

    def features(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(x)


class Normed(nn.Module):
    """Features with batch normalization, then a classifier."""

    def __init__(self, inputs: int = 3, classes: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 5), nn.BatchNorm1d(5), nn.Tanh())
        self.classifier = nn.Linear(5, classes)

    def features(self, x: Tensor) -> Tensor:
        return self.body(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


def federation_of(parts: Sequence[tuple[Any, Any]], classes: int = 2) -> Federation:
    """A federation whose clients have exactly these inputs and labels to train on, in float64."""
    x = torch.cat([torch.as_tensor(part[0], dtype=torch.float64) for part in parts])
    y = torch.cat([torch.as_tensor(part[1], dtype=torch.int64) for part in parts])
    offsets = np.cumsum([0, *(len(part[1]) for part in parts)])
    samples = Samples(x, y)
    data = DataSet("tiny", samples, samples, classes)
    ends = offsets[1:]
    return Federation(data, np.arange(len(y)), offsets, ends, ends, dtype=torch.float64)


def random_parts(
    sizes: Sequence[int], inputs: int, classes: int, seed: int = 0
) -> list[tuple[Tensor, Tensor]]:
    """Inputs and labels of random clients."""
    rng = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(size, inputs, dtype=torch.float64, generator=rng),
            torch.randint(0, classes, (size,), generator=rng),
        )
        for size in sizes
    ]


class Trial:
    """A run without a folder, round by round, in float64."""

    def __init__(
        self,
        folder: Path,
        parts: Sequence[tuple[Any, Any]],
        method: Method | str | dict[str, Any],
        *,
        model: nn.Module | None = None,
        classes: int = 2,
        step: ServerOptimizer | None = None,
        **config: Any,
    ) -> None:
        federation = federation_of(parts, classes)
        values = {"model": {"name": "given", "dtype": "float64"}, "participation": 1.0, **config}
        values.setdefault("evaluation", {"every": 0, "last": 0})
        objects = UserObjects(
            federation=federation,
            model=model or Direct(federation.shape[0], classes),
            method=method if isinstance(method, Method) else None,
            server_optimizer=step,
        )
        if not isinstance(method, Method):
            values["method"] = method
        self.simulation, self.warnings = assemble(make_config(values), objects)
        self.states = ClientStates(folder / "states")
        self.engine = Serial(self.simulation, self.states)
        self.run_state = start_state(self.simulation)

    @property
    def parameters(self) -> Tensor:
        return self.run_state.weights.parameters

    @property
    def server(self) -> dict[str, Tensor]:
        return self.run_state.server

    @property
    def reported(self) -> Weights:
        return self.simulation.method.reported(self.run_state.server, self.run_state.weights)

    def broadcast(self) -> Broadcast:
        """What the clients of the next round get."""
        round = self.run_state.round + 1
        shared = self.simulation.method.broadcast(
            self.run_state.server, self.simulation.in_round(round).context
        )
        return Broadcast(round, self.run_state.weights, shared)

    def client(self, client: int) -> tuple[Update, dict[str, Tensor]]:
        """Train one client as the next round would, with no consequence."""
        return train_one(self.simulation, client, self.broadcast(), self.states.load(client))

    def rounds(self, count: int = 1) -> "Trial":
        for _ in range(count):
            self.record = run_round(self.simulation, self.engine, self.run_state).record
        return self


def softmax_gradient(weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the mean cross-entropy of `Direct`, written out; a flat vector like the weights."""
    w = weights.view(-1, x.shape[1])
    p = torch.softmax(x @ w.T, 1)
    p[torch.arange(len(y)), y] -= 1
    return (p.T @ x / len(y)).flatten()
