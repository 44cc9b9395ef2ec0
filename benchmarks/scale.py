"""What many rounds, many clients and large models take: memory and page faults, and time as a ratio.

    python benchmarks/scale.py [memory] [faults] [clients] [arrival] [aggregation] [cohorts] [nodes]

Without a name, all of them run.
"""

import multiprocessing
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cohorts import cohorts, nodes
from simulations import images, mlp, points, simulation_of
from timing import interleaved, report

from eunoe.core.flat_model import Weights
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.engines.aggregation import Aggregator
from eunoe.engines.client import Broadcast, Update
from eunoe.engines.client_states import ClientStates
from eunoe.engines.process import Process
from eunoe.engines.serial import Serial
from eunoe.models.lenet import LeNet
from eunoe.simulation.loop import one_round
from eunoe.store.state import start_state

torch.set_num_threads(1)


def memory() -> None:
    """Memory after 300 rounds against that after 20."""
    federation = points(50, 40)
    simulation = simulation_of(federation, mlp(), 10, epochs=1, batch_size=20, lr=0.01)
    run_state = start_state(simulation)
    with (
        tempfile.TemporaryDirectory() as folder,
        Process(simulation, ClientStates(Path(folder)), 2) as engine,
    ):
        used = {}
        for round in range(1, 301):
            one_round(simulation, engine, run_state)
            used[round] = resident()
        print(
            f"memory: {used[20]:.0f} MB after 20 rounds, {used[300]:.0f} MB after 300, "
            f"ratio {used[300] / used[20]:.3f} (at most 1.05)"
        )


def faults() -> None:
    """Page faults of a worker's later participations against its first: memory that is kept causes none."""
    simulation = simulation_of(images(1, 256), LeNet((3, 32, 32), 10), 1, epochs=3, batch_size=64)
    broadcast = Broadcast(1, simulation.model.weights.copy())
    with tempfile.TemporaryDirectory() as folder:
        engine = Process(simulation, ClientStates(Path(folder)), 1)
        with engine:
            counts = [0]
            for _ in range(3):
                list(engine.train([0], broadcast))
                (worker,) = multiprocessing.active_children()
                # The tenth value of a process's status counts its page faults.
                status = Path(f"/proc/{worker.pid}/stat").read_text().rsplit(")")[1].split()
                counts.append(int(status[7]))
    first, _, third = np.diff(counts)
    print(
        f"page faults of a worker: {first} in its first participation, {third} in its third, "
        f"ratio {third / first:.3f} (at most 0.1)"
    )


def clients(rounds: int = 30, stream: Any = ()) -> None:
    """Rounds of a federation with a million clients against one with a hundred, the same work in both."""
    engines: dict[str, Callable[[], None]] = {}
    before = resident()
    for count in (1_000_000, 100):
        x = torch.randn(10_000, 64)
        y = torch.arange(10_000) % 10
        rows = np.tile(np.arange(10_000), max(1, count * 10 // 10_000))[: count * 10]
        data = from_arrays(x.numpy(), y.numpy(), x[:10].numpy(), y[:10].numpy())
        offsets = np.arange(count + 1) * 10
        federation = Federation(data, rows, offsets, offsets[1:], offsets[1:])
        simulation = simulation_of(federation, mlp(), 10, stream, epochs=5, batch_size=5, lr=0.01)
        if count > 100:
            print(f"a million clients: {resident() - before:.0f} MB besides the data (under 1,000)")
        engine = Serial(simulation, ClientStates(Path(tempfile.mkdtemp())))
        run_state = start_state(simulation)
        engines[f"{count:,} clients"] = lambda simulation=simulation, engine=engine, run_state=run_state: (
            one_round(simulation, engine, run_state)
        )
    interleaved(engines, 2)
    report("a round", interleaved(engines, rounds), 1.2)


def arrival() -> None:
    """The same while clients join, leave and sleep: in a round about one in four is there."""
    days = {"day": 20, "awake": 0.4, "together": 0.0}
    clients(stream={"name": "arrival", "joining": 0.5, "leaving": 0.3, "over": 60, **days})


def merge() -> None:
    """Memory of merging a thousand updates of 1.7M parameters."""
    size = 1_700_000
    empty = torch.empty(0)
    simulation = simulation_of(points(100, 10), mlp(), 10)
    start = Weights(torch.zeros(size), empty, empty.long())
    before = peak()
    aggregator = Aggregator(simulation.method, start, simulation.context)
    for client in range(1000):
        aggregator.add(
            Update(client, 10, Weights(torch.full((size,), float(client)), empty, empty.long()), {})
        )
    simulation.method.aggregate({}, aggregator.aggregate, simulation.context)
    used = (peak() - before) / (size * 4 / 1e6)
    print(f"merging 1,000 updates: memory of {used:.0f} models")


def resident() -> float:
    """MB that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


SECTIONS = {f.__name__: f for f in (memory, faults, clients, arrival, merge, cohorts, nodes)}

if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name]()
