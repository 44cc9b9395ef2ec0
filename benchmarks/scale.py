"""Memory, time and bytes of large rounds, long runs and many runs.

    python -m benchmarks.scale [section ...] [--rounds 100000] [--runs 500] [--seconds 120]

memory, faults, clients, arrival and aggregation print a line; nodes, training, report and compare print a
table; cohorts also puts one into docs/scale.md. `training` trains a tiny model for --seconds; `report` and
`compare` read folders that repeat the records of a short run, with --rounds rounds and --runs seeds.
"""

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import torch
from benchmarks.harness import (
    DOCS,
    build,
    mlp,
    print_ratio,
    random_federation,
    replace_in_page,
    rounds_of,
    run_sections,
    time_in_turn,
)

from eunoe.analysis.tables import Table
from eunoe.config.settings import to_toml
from eunoe.core.flat_model import Weights
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.engines.base import Engine
from eunoe.engines.client_states import ClientStates
from eunoe.engines.process import Process
from eunoe.engines.simulation import Simulation
from eunoe.models.cnn import CNN, LeNet
from eunoe.report.export import as_svg
from eunoe.report.figures.charts import table as chart_data
from eunoe.report.theme import config as theme
from eunoe.server.updates import Broadcast, Update
from eunoe.simulation.loop import run_round
from eunoe.simulation.running import resume, run
from eunoe.store.checkpoints import start_state
from eunoe.store.reader import read_run_config
from eunoe.system.machine import cores

PAGE = "scale.md"
COSTS = ["what", "seconds", "MB of memory"]
TINY = {
    "data": "digits",
    "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.3},
    "model": "logistic",
    "participation": 5,
    "training": {"epochs": 1, "lr": 0.1},
    "engine": "serial",
    "evaluation": {"every": 10},
    "checkpoint_seconds": 10,
    "probes": [],
}


def memory() -> None:
    """Memory after 300 rounds against that after 20."""
    simulation = build(random_federation(50, 40), mlp(), 10, epochs=1, batch_size=20, lr=0.01)
    with rounds_of(simulation, Process, workers=2) as train:
        used = {}
        for round in range(1, 301):
            train()
            used[round] = resident()
    ratio = f"ratio {used[300] / used[20]:.3f} (at most 1.05)"
    print(f"memory: {used[20]:.0f} MB after 20 rounds, {used[300]:.0f} MB after 300, {ratio}")


def faults() -> None:
    """Page faults of a worker's third participation against its first: memory that is kept causes none."""
    federation = random_federation(1, 256, (32, 32, 3))
    simulation = build(federation, LeNet((3, 32, 32), 10), 1, epochs=3, batch_size=64)
    broadcast = Broadcast(1, simulation.model.weights.copy())
    counts = [0]
    with (
        tempfile.TemporaryDirectory() as folder,
        Process(simulation, ClientStates(Path(folder)), 1) as engine,
    ):
        for _ in range(3):
            list(engine.train(simulation.in_round(1), [0], broadcast))
            (worker,) = multiprocessing.active_children()
            # The tenth value of a process's status counts its page faults.
            status = Path(f"/proc/{worker.pid}/stat").read_text().rsplit(")")[1].split()
            counts.append(int(status[7]))
    first, _, third = np.diff(counts)
    print(
        f"page faults of a worker: {first} in its first participation, {third} in its third, "
        f"ratio {third / first:.3f} (at most 0.1)"
    )


def clients(repeats: int = 30, stream: Any = ()) -> None:
    """Rounds with a million clients in the federation against a hundred, with the same work in both."""
    before = resident()
    with ExitStack() as stack:
        work: dict[str, Callable[[], object]] = {}
        for count in (1_000_000, 100):
            x, y = torch.randn(10_000, 64), torch.arange(10_000) % 10
            rows = np.tile(np.arange(10_000), max(1, count * 10 // 10_000))[: count * 10]
            data = from_arrays(x.numpy(), y.numpy(), x[:10].numpy(), y[:10].numpy())
            offsets = np.arange(count + 1) * 10
            federation = Federation(data, rows, offsets, offsets[1:], offsets[1:])
            simulation = build(federation, mlp(), 10, stream, epochs=5, batch_size=5, lr=0.01)
            if count > 100:
                print(f"a million clients: {resident() - before:.0f} MB besides the data (under 1,000)")
            work[f"{count:,} clients"] = stack.enter_context(rounds_of(simulation))
        time_in_turn(work, 2)
        print_ratio("a round", time_in_turn(work, repeats), 1.2)


def arrival() -> None:
    """Like `clients`, while clients join, leave and sleep: about one in four is available in a round."""
    days = {"day": 20, "awake": 0.4, "together": 0.0}
    clients(stream={"name": "arrival", "joining": 0.5, "leaving": 0.3, "over": 60, **days})


def aggregation() -> None:
    """Memory of aggregating a thousand updates of 1.7M parameters."""
    size, empty = 1_700_000, torch.empty(0)
    simulation = build(random_federation(100, 10), mlp(), 10)
    start = Weights(torch.zeros(size), empty, empty.long())
    before = peak()
    aggregator = simulation.aggregator(Broadcast(0, start))
    for client in range(1000):
        weights = Weights(torch.full((size,), float(client)), empty, empty.long())
        aggregator.add(Update(client, 10, weights, {}))
    simulation.method.aggregate({}, aggregator.aggregate, simulation.context)
    print(f"aggregating 1,000 updates: memory of {(peak() - before) / (size * 4 / 1e6):.0f} models")


def resident() -> float:
    """Return the MB that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def peak() -> float:
    """Return the largest MB that this process held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


class Cost(NamedTuple):
    """Cost of a round: its seconds, those of the driver's processor, and bytes copied to the driver."""

    seconds: float
    driver: float
    received: int


def round_cost(simulation: Simulation, engine: Engine, repeats: int = 1) -> Cost:
    """Return the cheapest of some rounds, after one that starts the workers."""
    run_state, costs = start_state(simulation), []
    for _ in range(repeats + 1):
        engine.transfers.take()
        start, busy = time.perf_counter(), time.process_time()
        run_round(simulation, engine, run_state)
        seconds = time.perf_counter() - start, time.process_time() - busy
        costs.append(Cost(*seconds, engine.transfers.bytes["to the driver"]))
    return min(costs[1:])


def mlp_round(clients: int) -> Simulation:
    return build(random_federation(clients, 10), mlp(), clients, epochs=1, batch_size=10, lr=0.01)


def cnn_round(clients: int) -> Simulation:
    federation = random_federation(clients, 10, (28, 28))
    return build(federation, CNN((1, 28, 28), 10), clients, epochs=1, batch_size=10, lr=0.01)


def cohorts() -> None:
    """Rounds of ten to ten thousand clients with one step each."""
    rows, points = [], list[dict[str, Any]]()
    counts = {"MLP": (mlp_round, (10, 100, 1000, 10_000)), "CNN": (cnn_round, (10, 100, 1000))}
    for title, (make, sizes) in counts.items():
        for count in sizes:
            simulation = make(count)
            with (
                tempfile.TemporaryDirectory() as folder,
                Process(simulation, ClientStates(Path(folder)), cores()) as engine,
            ):
                cost = round_cost(simulation, engine, 3 if count <= 100 else 1)
            size = sum(v.numel() * v.itemsize for v in simulation.model.weights.vectors().values())
            rows.append(
                [
                    f"{title}, {simulation.context.model.parameters / 1e6:.2f} million",
                    f"{count:,}",
                    f"{cost.seconds:.3f}",
                    f"{1e3 * cost.seconds / count:.2f}",
                    f"{cost.driver:.3f}",
                    f"{2 * size * count / 1e6:,.1f}",
                ]
            )
            points += [
                {"clients": count, "seconds": cost.seconds, "line": f"{title}, a round"},
                {"clients": count, "seconds": cost.driver, "line": f"{title}, the driver's part"},
            ]
    axes = (
        alt.X("clients:Q", scale=alt.Scale(type="log"), title="clients a round"),
        alt.Y("seconds:Q", scale=alt.Scale(type="log"), title="seconds"),
    )
    chart = alt.Chart(chart_data(points)).mark_line(point=True).encode(*axes, alt.Color("line:N", title=None))
    spec = chart.properties(width=420, height=260).to_dict(validate=False)
    look = {**theme("#111111", font_size=10), "background": "#ffffff"}
    (DOCS / "images" / "scale.svg").write_text(as_svg(spec, look))
    heads = ["model", "clients a round", "seconds", "ms a client", "driver's seconds", "MB on a network"]
    replace_in_page(PAGE, "cohorts", Table(heads, rows).markdown())


def nodes() -> None:
    """Rounds of 60 clients of the CNN on one to four single-core Ray nodes of this machine."""
    from ray.cluster_utils import Cluster

    from eunoe.engines.ray.engine import Ray

    simulation, rows = cnn_round(60), []
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for count in (1, 2, 4):
            while len(cluster.worker_nodes) < count:
                cluster.add_node(num_cpus=1)
            with (
                tempfile.TemporaryDirectory() as folder,
                Ray(simulation, ClientStates(Path(folder)), cluster.address) as engine,
            ):
                cost = round_cost(simulation, engine, 2)
            numbers = f"{cost.seconds:.2f}", f"{cost.driver:.2f}", f"{cost.received / 1e6:,.1f}"
            rows.append([str(count), *numbers])
    finally:
        cluster.shutdown()
    heads = ["nodes", "seconds", "driver's seconds", "MB to the driver"]
    print(Table(heads, rows).markdown(), flush=True)


def run_command(*words: object) -> list[str]:
    """Run `eunoe` with these words; return its processor seconds and its largest memory in MB."""
    process = subprocess.Popen([sys.executable, "-m", "eunoe", *map(str, words)], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"eunoe {words[0]} failed")
    return [f"{used.ru_utime + used.ru_stime:.1f}", f"{used.ru_maxrss / 1e3:.0f}"]


def folder_size(folder: Path) -> float:
    """Return the MB of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def train_short(home: Path, rounds: int) -> Path:
    """Train for some rounds, evaluated after each."""
    run({**TINY, "rounds": rounds, "evaluation": {"every": 1}}, out=home / "short")
    return home / "short"


def copy_repeated(source: Path, folder: Path, rounds: int, seed: int = 0) -> Path:
    """Write a run folder that repeats the records of a run up to this number of rounds."""
    folder.mkdir()
    (folder / "config.toml").write_text(to_toml({**read_run_config(source), "rounds": rounds, "seed": seed}))
    status = {"state": "finished", "round": rounds, "reason": "", "seconds": 1.0}
    (folder / "status.json").write_text(json.dumps(status))
    (folder / "partition.json").write_text((source / "partition.json").read_text())
    for name in ("metrics.jsonl", "timings.jsonl"):
        lines = [json.loads(line) for line in (source / name).read_text().splitlines()]
        with open(folder / name, "w") as file:
            for round in range(1, rounds + 1):
                file.write(json.dumps({**lines[(round - 1) % len(lines)], "round": round}) + "\n")
    return folder


def report(rounds: int) -> None:
    """Report and comparison of one long run."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        folder = copy_repeated(train_short(home, 200), home / "long", rounds)
        what = f"of {rounds:,} rounds ({folder_size(folder):.0f} MB)"
        costs = run_command("report", folder, "--out", home / "report.html")
        written = (home / "report.html").stat().st_size / 1e6
        rows = [[f"`eunoe report` {what}: {written:.2f} MB", *costs]]
        rows.append([f"`eunoe compare` {what}", *run_command("compare", folder)])
    print(Table(COSTS, rows).markdown(), flush=True)


def compare(runs: int) -> None:
    """Comparison of many short runs, and of one."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        source = train_short(home, 100)
        folders = [copy_repeated(source, home / f"run{seed}", 100, seed) for seed in range(runs)]
        rows = [
            [f"`eunoe compare` of {title} of 100 rounds", *run_command("compare", *some)]
            for title, some in ((f"{runs} runs", folders), ("1 run", folders[:1]))
        ]
    print(Table(COSTS, rows).markdown(), flush=True)


def training(seconds: float) -> None:
    """A run of a tiny model that is stopped and resumed twice."""
    rows, before = list[list[str]](), 0
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "run"
        for share in (0.1, 0.2, 0.7):
            # The time limit ends the run; resuming continues from its checkpoint.
            stop, clock = {"hours": share * seconds / 3600}, time.process_time()
            if rows:
                done = len(resume(folder, stop=stop).records)
            else:
                done = len(run({**TINY, "rounds": 10**6, "stop": stop}, out=folder).records)
            spent = time.process_time() - clock
            saved = max((folder / "checkpoints").glob("*.safetensors")).stat().st_size
            clock = time.process_time()
            resume(folder, stop={"hours": 1e-9})
            again = time.process_time() - clock
            per_round = f"{1e3 * spent / (done - before):.1f}", f"{folder_size(folder) * 1e6 / done:.0f}"
            rows.append([f"{done:,}", *per_round, f"{saved / 1e3:.0f}", f"{again:.2f}"])
            before = done
    heads = ["rounds", "ms a round", "bytes a round on disk", "kB of a checkpoint", "seconds to resume"]
    print(Table(heads, rows).markdown(), flush=True)


if __name__ == "__main__":
    run_sections(
        __doc__,
        [memory, faults, clients, arrival, aggregation, cohorts, nodes, training, report, compare],
        rounds=100_000,
        runs=500,
        seconds=120.0,
    )
