"""How much faster two single-core Ray nodes train than one: LeNet on CIFAR shapes.

The nodes are on this machine, so it needs two idle cores: python benchmarks/ray_nodes.py
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from ray.cluster_utils import Cluster

from eunoe.config.schema import make_config
from eunoe.data.federation import Federation
from eunoe.engines.base import Engine
from eunoe.engines.client import Broadcast
from eunoe.engines.client_states import ClientStates
from eunoe.engines.ray.engine import Ray
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.selection import select_clients
from eunoe.store.state import start_state

CLIENTS, SIZE, PARTICIPANTS, ROUNDS = 100, 448, 10, 5
WANTED = 1.7


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    count = CLIENTS * SIZE
    x, y = rng.integers(0, 256, (count, 32, 32, 3), np.uint8), rng.integers(0, 10, count)
    federation = Federation.from_arrays(x, y, x[:1], y[:1], partition="iid", clients=CLIENTS, validation=0.0)
    values = {
        "data": "given",
        "partition": "given",
        "model": "lenet",
        "participation": PARTICIPANTS,
        "training": {"epochs": 3, "batch_size": 64},
    }
    simulation, _ = assemble(make_config(values), UserObjects(federation=federation))
    weights = start_state(simulation).weights

    def seconds(engine: Engine) -> float:
        """The median time of a round, after one that starts the workers."""
        times = []
        for round in range(1, ROUNDS + 2):
            began = time.monotonic()
            for _ in engine.train(select_clients(simulation, round), Broadcast(round, weights)):
                pass
            times.append(time.monotonic() - began)
        return statistics.median(times[1:])

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.add_node(num_cpus=1)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            Ray(simulation, ClientStates(Path(folder)), cluster.address) as engine,
        ):
            one = seconds(engine)
            cluster.add_node(num_cpus=1)
            two = seconds(engine)
    finally:
        cluster.shutdown()
    print(f"one node: {one:.2f} s a round of {PARTICIPANTS} clients, two nodes: {two:.2f} s")
    print(f"ratio {one / two:.2f} (at least {WANTED} wanted); load of this machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
