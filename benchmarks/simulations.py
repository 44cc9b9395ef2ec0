"""Simulations on random data: nothing is loaded, and every client has as much work as any other."""

from typing import Any

import numpy as np
from torch import nn

from eunoe.config.options import Split
from eunoe.config.schema import make_config
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.data.partitions.iid import Iid
from eunoe.engines.simulation import Simulation
from eunoe.simulation.build import UserObjects, assemble


def images(clients: int, size: int, classes: int = 10) -> Federation:
    """Random CIFAR-shaped images, as many for each client."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (clients * size, 32, 32, 3), dtype=np.uint8)
    y = np.arange(len(x)) % classes
    data = from_arrays(x, y, x[:10], y[:10], classes=classes)
    return Federation.build(data, Iid(clients=clients), split=Split(validation=0.0))


def points(clients: int, size: int, inputs: int = 64, classes: int = 10) -> Federation:
    """Random vectors, as many for each client."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(clients * size, inputs)).astype(np.float32)
    y = np.arange(len(x)) % classes
    data = from_arrays(x, y, x[:10], y[:10], classes=classes)
    return Federation.build(data, Iid(clients=clients), split=Split(validation=0.0))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def logistic() -> nn.Module:
    return nn.Linear(64, 10)


def simulation_of(
    federation: Federation, net: nn.Module, participation: int, stream: Any = (), **training: Any
) -> Simulation:
    base = {"data": "given", "partition": "given", "model": "given", "probes": [], "stream": stream}
    config = make_config({**base, "participation": participation, "training": training})
    return assemble(config, UserObjects(federation=federation, model=net))[0]
