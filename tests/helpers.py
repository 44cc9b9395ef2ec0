"""Small federations, models and simulations that many tests start from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eunoe.config.schema import make_config
from eunoe.core.flat_model import Weights
from eunoe.data.federation import Federation
from eunoe.engines.base import Engine
from eunoe.engines.client import make_client_context, train_client
from eunoe.engines.simulation import ClientData, Simulation
from eunoe.methods.base import Method
from eunoe.methods.context import ClientContext, RoundContext
from eunoe.server.aggregator import Aggregator
from eunoe.server.updates import Broadcast, Update
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.loop import select_clients


def blobs(
    clients: int = 4, size: int = 40, classes: int = 3, dimensions: int = 5, seed: int = 0, **options: Any
) -> Federation:
    """Clients with points around one center per class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, clients * size + 60)
    labels[:classes] = np.arange(classes)
    centers = rng.normal(size=(classes, dimensions)) * 2
    points = (centers[labels] + rng.normal(size=(len(labels), dimensions))).astype(np.float32)
    options = {"partition": "dirichlet", "alpha": 0.5, **options}
    return Federation.from_arrays(
        points[60:], labels[60:], points[:60], labels[:60], clients=clients, seed=seed, **options
    )


class Net(nn.Module):
    """A small network with features and a classifier."""

    def __init__(self, inputs: int = 5, hidden: int = 8, classes: int = 3) -> None:
        super().__init__()
        self.body = nn.Linear(inputs, hidden)
        self.classifier = nn.Linear(hidden, classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x))


class Tied(nn.Module):
    """Two layers of one weight."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        inputs = int(np.prod(shape))
        self.first, self.second = nn.Linear(inputs, inputs), nn.Linear(inputs, inputs)
        self.second.weight = self.first.weight
        self.classifier = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.relu(self.second(torch.relu(self.first(x.flatten(1))))))


class Same(nn.Module):
    """Logits are the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def make_simulation(
    federation: Federation | None = None, net: nn.Module | None = None, dtype: str = "float32", **values: Any
) -> Simulation:
    """A simulation of a small federation and network with these config values."""
    torch.manual_seed(0)
    objects = UserObjects(federation=federation or blobs(), model=net or Net())
    base = {"data": "given", "partition": "given", "participation": 2, "rounds": 3}
    model = {"name": "given", "dtype": dtype}
    return assemble(make_config({**base, "model": model, **values}), objects)[0]


def begin(
    simulation: Simulation, client: int, broadcast: Broadcast, state: Mapping[str, Tensor]
) -> tuple[ClientContext, list[np.ndarray]]:
    """Begin a client in the round of a broadcast; return it with its batches."""
    data = ClientData.load(simulation.in_round(broadcast.round), client, state)
    order, sizes = data.plan()
    context = make_client_context(data, broadcast, state, len(sizes))
    return context, np.split(order, np.cumsum(sizes)[:-1])


def train_one(
    simulation: Simulation, client: int, broadcast: Broadcast, state: Mapping[str, Tensor]
) -> tuple[Update, dict[str, Tensor]]:
    """Train a client in the round of a broadcast."""
    return train_client(simulation.in_round(broadcast.round), client, broadcast, state)


def train(engine: Engine, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
    """Train clients on an engine in the round of a broadcast."""
    return engine.train(engine.simulation.in_round(broadcast.round), clients, broadcast)


def select(simulation: Simulation, round: int) -> list[int]:
    """Select the clients of a round."""
    return select_clients(simulation.in_round(round))


def make_aggregator(method: Method, start: Weights, context: RoundContext, **options: Any) -> Aggregator:
    """Make the aggregator of a method, without limits."""
    return Aggregator(
        method.empty_aggregate(start, context),
        contribution=method.contribution,
        explained_norms=lambda norm, steps: method.explained_norms(norm, steps, {}, context),
        **options,
    )
