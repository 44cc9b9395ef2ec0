"""Rounds of ten to ten thousand clients, and rounds on one to four Ray nodes of this machine.

Sections of benchmarks/scale.py. Their tables go to docs/scale.md too, with a figure.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import numpy as np
from scale_page import DOCS, put
from simulations import mlp, points, simulation_of

from eunoe.analysis.tables import Table
from eunoe.config.options import Split
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.data.partitions.iid import Iid
from eunoe.engines.base import Engine
from eunoe.engines.client_states import ClientStates
from eunoe.engines.process import Process
from eunoe.engines.simulation import Simulation
from eunoe.models.cnn import CNN
from eunoe.report.export import as_svg
from eunoe.report.theme import config, table
from eunoe.simulation.loop import one_round
from eunoe.store.state import start_state
from eunoe.system.machine import cores

CORES = cores()
NODE_CLIENTS = 60


class Model(NamedTuple):
    title: str
    simulation: Callable[[int], Simulation]
    most: int


def _gray(clients: int) -> Federation:
    """Random MNIST-shaped images, ten for each client."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (clients * 10, 28, 28), dtype=np.uint8), np.arange(clients * 10) % 10
    data = from_arrays(x, y, x[:10], y[:10], classes=10)
    return Federation.build(data, Iid(clients=clients), split=Split(validation=0.0))


def _mlp(clients: int) -> Simulation:
    return simulation_of(points(clients, 10), mlp(), clients, epochs=1, batch_size=10, lr=0.01)


def _cnn(clients: int) -> Simulation:
    net = CNN((1, 28, 28), 10)
    return simulation_of(_gray(clients), net, clients, epochs=1, batch_size=10, lr=0.01)


MODELS = (Model("MLP", _mlp, 10_000), Model("CNN", _cnn, 1_000))


class Cost(NamedTuple):
    """What a round takes."""

    seconds: float
    driver: float
    # Copied to this process from its workers.
    received: int


def cost(simulation: Simulation, engine: Engine, rounds: int = 1) -> Cost:
    """The cheapest of some rounds, after one that starts the workers and learns what is usual."""
    run_state, found = start_state(simulation), []
    for _ in range(rounds + 1):
        engine.transfers.taken()
        began, busy = time.perf_counter(), time.process_time()
        one_round(simulation, engine, run_state)
        took = time.perf_counter() - began, time.process_time() - busy
        found.append(Cost(*took, engine.transfers.bytes["to the driver"]))
    return min(found[1:])


def cohorts() -> None:
    """Seconds, driver time and bytes of rounds with more and more clients, one step each."""
    rows: list[dict[str, Any]] = []
    for model in MODELS:
        count = 10
        while count <= model.most:
            simulation = model.simulation(count)
            size = sum(v.numel() * v.itemsize for v in simulation.model.weights.vectors().values())
            with (
                tempfile.TemporaryDirectory() as folder,
                Process(simulation, ClientStates(Path(folder)), CORES) as engine,
            ):
                found = cost(simulation, engine, 3 if count <= 100 else 1)
            rows.append(
                {
                    "model": model.title,
                    "parameters": simulation.context.parameters,
                    "clients": count,
                    "seconds": found.seconds,
                    "driver": found.driver,
                    "bytes": 2 * size * count,
                }
            )
            print(f"{model.title}, {count:,} clients: {found.seconds:.3f} s", flush=True)
            count *= 10
    _draw(rows)
    shown = [
        [
            f"{row['model']}, {row['parameters'] / 1e6:.2f} million",
            f"{row['clients']:,}",
            f"{row['seconds']:.3f}",
            f"{1e3 * row['seconds'] / row['clients']:.2f}",
            f"{row['driver']:.3f}",
            f"{row['bytes'] / 1e6:,.1f}",
        ]
        for row in rows
    ]
    heads = ["model", "clients a round", "seconds", "ms a client", "driver's seconds", "MB on a network"]
    put("cohorts", Table(heads, shown).markdown())


def nodes() -> None:
    """Driver time and bytes of a round of the CNN on one to four single-core Ray nodes of this machine."""
    from ray.cluster_utils import Cluster

    from eunoe.engines.ray.engine import Ray

    simulation, rows = _cnn(NODE_CLIENTS), []
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for count in (1, 2, 4):
            while len(cluster.worker_nodes) < count:
                cluster.add_node(num_cpus=1)
            for summers in (None, count):
                with (
                    tempfile.TemporaryDirectory() as folder,
                    Ray(simulation, ClientStates(Path(folder)), cluster.address, summers=summers) as engine,
                ):
                    found = cost(simulation, engine, 2)
                who = "the driver" if summers is None else f"{count} summer{'s' * (count > 1)}"
                rows.append({"nodes": count, "adds": who, **found._asdict()})
                print(f"nodes: {count}, adding: {who}, {found.seconds:.2f} s", flush=True)
    finally:
        cluster.shutdown()
    shown = [
        [
            str(row["nodes"]),
            row["adds"],
            f"{row['seconds']:.2f}",
            f"{row['driver']:.2f}",
            f"{row['received'] / 1e6:,.1f}",
        ]
        for row in rows
    ]
    heads = ["nodes", "adding", "seconds", "driver's seconds", "MB to the driver"]
    put("nodes", Table(heads, shown).markdown())


def _draw(found: Sequence[dict[str, Any]]) -> None:
    """Draw seconds of a round over its clients."""
    rows = [
        {"clients": row["clients"], "seconds": row[what], "line": f"{row['model']}, {title}"}
        for row in found
        for what, title in (("seconds", "a round"), ("driver", "the driver's part"))
    ]
    axes = (
        alt.X("clients:Q", scale=alt.Scale(type="log"), title="clients a round"),
        alt.Y("seconds:Q", scale=alt.Scale(type="log"), title="seconds"),
    )
    chart = alt.Chart(table(rows)).mark_line(point=True).encode(*axes, alt.Color("line:N", title=None))
    look = {**config("#111111", font_size=10), "background": "#ffffff"}
    spec = chart.properties(width=420, height=260).to_dict(validate=False)
    (DOCS / "images" / "scale.svg").write_text(as_svg(spec, look))
