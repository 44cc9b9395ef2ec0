"""The workload on an engine of Eunoe."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from workload import CORES, LR, WORKLOADS, Workload, requested_rounds

from eunoe.config.options import Split
from eunoe.config.schema import make_config
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.data.partitions.without_labels import Iid
from eunoe.engines.client_states import ClientStates
from eunoe.engines.process import Process
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.engines.vectorized.engine import Vectorized
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.loop import run_round
from eunoe.store.checkpoints import start_state


def simulation_of(work: Workload) -> Simulation:
    rng, size = np.random.default_rng(0), work.clients * work.samples
    if len(work.shape) == 3:
        # Bytes, as in a data set of images; each batch is converted to floats.
        x = rng.integers(0, 256, (size, *work.shape[1:], work.shape[0]), dtype=np.uint8)
    else:
        x = rng.normal(size=(size, *work.shape)).astype(np.float32)
    y = np.arange(size) % 10
    data = from_arrays(x, y, x[:10], y[:10], classes=10)
    federation = Federation.build(data, Iid(clients=work.clients), split=Split(validation=0.0))
    training = {"epochs": work.epochs, "batch_size": work.batch, "lr": LR}
    given = {"data": "given", "partition": "given", "model": "given", "probes": []}
    config = make_config({**given, "participation": work.participants, "training": training})
    return assemble(config, UserObjects(federation=federation, model=work.net()))[0]


def main() -> None:
    torch.set_num_threads(1)
    simulation = simulation_of(WORKLOADS[sys.argv[1]])
    run_state = start_state(simulation)
    with tempfile.TemporaryDirectory() as folder:
        states = ClientStates(Path(folder))
        engines = {
            "serial": lambda: Serial(simulation, states),
            "process": lambda: Process(simulation, states, CORES),
            "vectorized": lambda: Vectorized(simulation, states),
        }
        with engines[sys.argv[2]]() as engine:
            for rounds in requested_rounds():
                for _ in range(rounds):
                    run_round(simulation, engine, run_state)


if __name__ == "__main__":
    main()
