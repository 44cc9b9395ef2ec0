"""A small federation with a public set, and runs on it that the tests of server training compare."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eunoe.config.schema import make_config
from eunoe.data.federation import Federation
from eunoe.data.samples import DataSet, Samples
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.hooks import Record
from eunoe.simulation.loop import run_round
from eunoe.store.checkpoints import start_state

CLASSES, INPUTS = 3, 4


def blobs(size: int, seed: int, classes: int = CLASSES) -> Samples:
    """Points around one center per class."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (size,), generator=rng)
    centers = torch.randn(classes, INPUTS, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    return Samples(centers[y] + torch.randn(size, INPUTS, generator=rng, dtype=torch.float64), y)


def federation(
    sizes: Sequence[int] = (9, 6, 12), public: int = 20, validation: int = 8, foreign: Samples | None = None
) -> Federation:
    """Clients of these sizes, then the public samples to train and to validate on; all in float64."""
    clients = sum(sizes)
    samples = blobs(clients + public + validation, 0)
    data = DataSet("blobs", samples, blobs(30, 1), CLASSES)
    offsets = np.cumsum([0, *sizes])
    first = clients if foreign is None else 0
    return Federation(
        data,
        np.arange(clients),
        offsets,
        offsets[1:],
        offsets[1:],
        samples if foreign is None else foreign,
        np.arange(first, first + public),
        np.arange(first + public, first + public + validation),
        dtype=torch.float64,
        public_labeled=foreign is None,
    )


def make_simulation(on: Federation, method: Any, **config: Any) -> Simulation:
    """A simulation of a linear model in float64 on this federation."""
    values = {"model": {"name": "logistic", "dtype": "float64"}, "participation": 1.0, "method": method}
    return assemble(make_config({**values, **config}), UserObjects(federation=on))[0]


class Rounds:
    """A run without a folder."""

    def __init__(self, simulation: Simulation, folder: Path) -> None:
        self.simulation, self.engine = simulation, Serial(simulation, ClientStates(folder / "states"))
        self.run_state = start_state(simulation)
        self.records: list[Record] = []

    def go(self, rounds: int = 1) -> "Rounds":
        for _ in range(rounds):
            self.records.append(run_round(self.simulation, self.engine, self.run_state).record)
        return self

    @property
    def parameters(self) -> Tensor:
        return self.run_state.weights.parameters


def after(rounds: int, folder: Path, on: Federation, method: Any, **config: Any) -> Tensor:
    """The parameters after some rounds."""
    return Rounds(make_simulation(on, method, **config), folder).go(rounds).parameters
