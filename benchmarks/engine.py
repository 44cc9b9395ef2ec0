"""How fast the engines train, as ratios within one run: against the bare loop and against each other.

    python benchmarks/engine.py [process] [serial] [fields] [vectorized] [sizes] [checks]
        [checkpoints] [kernels]

Without a name, all of them run.
"""

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from simulations import images, logistic, mlp, points, simulation_of
from timing import interleaved, low, report
from torch import nn
from torch.profiler import ProfilerActivity, profile

from eunoe.config.options import Split
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.data.partitions.iid import Iid
from eunoe.engines.aggregation import Aggregator
from eunoe.engines.client import Broadcast
from eunoe.engines.client_states import ClientStates
from eunoe.engines.process import Process
from eunoe.engines.serial import Serial
from eunoe.engines.vectorized.engine import Vectorized
from eunoe.models.lenet import LeNet
from eunoe.models.mlp import MLP
from eunoe.models.small_cnn import SmallCNN
from eunoe.simulation.loop import one_round
from eunoe.store.folder import RunFolder
from eunoe.store.state import start_state
from eunoe.system.memory import keep_freed_memory
from eunoe.system.tensor_files import digest

torch.set_num_threads(1)


def usual_client(
    net: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int, lr: float
) -> None:
    """A client's training as it is usually written."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()


def process(rounds: int = 12) -> None:
    """Rounds of LeNet on two workers against two bare processes that do the same steps."""
    federation = images(100, 448)
    simulation = simulation_of(federation, LeNet((3, 32, 32), 10), 10, epochs=3, batch_size=64, lr=0.01)
    run_state = start_state(simulation)
    ready = [
        federation.inputs("clients", torch.from_numpy(federation.rows(k))).contiguous() for k in range(10)
    ]
    labels = [federation.data.train.y[torch.from_numpy(federation.rows(k))] for k in range(10)]
    context = multiprocessing.get_context("fork")
    pipes = []
    for worker in range(2):
        ours, theirs = context.Pipe()
        context.Process(
            target=bare_worker, args=(theirs, ready[worker::2], labels[worker::2]), daemon=True
        ).start()
        pipes.append(ours)

    def bare() -> None:
        for pipe in pipes:
            pipe.send("go")
        for pipe in pipes:
            pipe.recv()

    with (
        tempfile.TemporaryDirectory() as folder,
        Process(simulation, ClientStates(Path(folder)), 2) as engine,
    ):

        def mine() -> None:
            one_round(simulation, engine, run_state)

        interleaved({"eunoe": mine, "bare": bare}, 2)
        report("process engine, LeNet", interleaved({"eunoe": mine, "bare": bare}, rounds), 1.10)


def bare_worker(pipe: Any, xs: list[torch.Tensor], ys: list[torch.Tensor]) -> None:
    torch.set_num_threads(1)
    net = LeNet((3, 32, 32), 10)
    start = [p.detach().clone() for p in net.parameters()]
    while pipe.recv():
        for x, y in zip(xs, ys, strict=True):
            with torch.no_grad():
                for p, s in zip(net.parameters(), start, strict=True):
                    p.copy_(s)
            usual_client(net, x, y, 3, 64, 0.01)
        pipe.send("done")


def serial(rounds: int = 40) -> None:
    """Steps of a small network against the usual loop."""
    federation = points(10, 160)
    simulation = simulation_of(federation, mlp(), 10, epochs=5, batch_size=8, lr=0.01)
    run_state, net = start_state(simulation), mlp()
    x, y = federation.data.train.x, federation.data.train.y
    parts = [(x[rows], y[rows]) for rows in (torch.from_numpy(federation.rows(k)) for k in range(10))]
    with tempfile.TemporaryDirectory() as folder:
        engine = Serial(simulation, ClientStates(Path(folder)))

        def mine() -> None:
            one_round(simulation, engine, run_state)

        def usual() -> None:
            for inputs, labels in parts:
                usual_client(net, inputs, labels, 5, 8, 0.01)

        interleaved({"eunoe": mine, "usual": usual}, 2)
        report(
            "serial engine, 1,000 steps of an MLP", interleaved({"eunoe": mine, "usual": usual}, rounds), 0.75
        )


def fields(rounds: int = 40) -> None:
    """Rounds with inputs that are a dict of one tensor against the same with the tensor."""
    plain = points(10, 160)
    x, y = plain.data.train.tensor, plain.data.train.y
    for kind in (Serial, Vectorized):
        with tempfile.TemporaryDirectory() as folder:
            work: dict[str, Callable[[], None]] = {}
            for what, data in (("dict", {"input": x}), ("tensor", x)):
                given = from_arrays(data, y, data, y)
                federation = Federation.build(given, Iid(clients=10), split=Split(validation=0.0))
                simulation = simulation_of(federation, mlp(), 10, epochs=5, batch_size=8, lr=0.01)
                engine = kind(simulation, ClientStates(Path(folder) / what))
                broadcast = Broadcast(1, simulation.model.weights.copy())
                work[what] = lambda engine=engine, broadcast=broadcast: list(
                    engine.train(range(10), broadcast)
                )
            interleaved(work, 5)
            seconds = interleaved(work, rounds)
        report(f"{kind.__name__.lower()} engine, dict inputs, 1,000 steps of an MLP", seconds, 1.05)


def vectorized(rounds: int = 40) -> None:
    """Rounds of small clients at once against the usual loop, that averages as well."""
    small = {"10 clients of an MLP": (10, mlp, 4), "50 clients of logistic regression": (50, logistic, 10)}
    for what, (count, net_of, times) in small.items():
        federation = points(count, 16)
        simulation = simulation_of(federation, net_of(), count, epochs=5, batch_size=8, lr=0.01)
        run_state, net = start_state(simulation), net_of()
        start = [p.detach().clone() for p in net.parameters()]
        x, y = federation.data.train.x, federation.data.train.y
        parts = [(x[rows], y[rows]) for rows in (torch.from_numpy(federation.rows(k)) for k in range(count))]
        with tempfile.TemporaryDirectory() as folder:
            engine = Vectorized(simulation, ClientStates(Path(folder)))

            def mine(simulation=simulation, engine=engine, run_state=run_state) -> None:  # type: ignore[no-untyped-def]
                one_round(simulation, engine, run_state)

            def usual(net=net, start=start, parts=parts) -> None:  # type: ignore[no-untyped-def]
                total = [torch.zeros_like(p) for p in start]
                for inputs, labels in parts:
                    with torch.no_grad():
                        for p, s in zip(net.parameters(), start, strict=True):
                            p.copy_(s)
                    usual_client(net, inputs, labels, 5, 8, 0.01)
                    for t, p in zip(total, net.parameters(), strict=True):
                        t.add_(p.detach(), alpha=1 / len(parts))

            began = time.perf_counter()
            # Steps are recorded during the first rounds.
            interleaved({"eunoe": mine}, 20)
            print(f"the vectorized engine's first 20 rounds took {time.perf_counter() - began:.1f} s")
            seconds = interleaved({"eunoe": mine, "usual": usual}, rounds)
        report(f"vectorized engine, {what}, batch 8, 5 epochs of 16", seconds, 1 / times)


def sizes(rounds: int = 8) -> None:
    """From which model on the vectorized engine pays: its speed against the serial engine's."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (640, 8, 8), dtype=np.uint8)
    small = from_arrays(pixels, np.arange(640) % 10, pixels[:10], np.arange(10))
    digits = Federation.build(small, Iid(clients=40), split=Split(validation=0.0))
    cases: dict[str, tuple[Federation, nn.Module]] = {
        "logistic regression": (points(40, 16), logistic()),
        "MLP of 128": (points(40, 16), mlp()),
        "MLP of 512": (points(40, 16), MLP((64,), 10, hidden=(512,))),
        "MLP of 1024": (points(40, 16), MLP((64,), 10, hidden=(1024,))),
        "MLP of 512 and 512": (points(20, 16), MLP((64,), 10, hidden=(512, 512))),
        "small CNN, 8 x 8": (digits, SmallCNN((1, 8, 8), 10)),
        "LeNet, 32 x 32": (images(8, 16), LeNet((3, 32, 32), 10)),
    }
    for what, (federation, net) in cases.items():
        count = len(federation)
        simulation = simulation_of(federation, net, count, epochs=5, batch_size=8, lr=0.01)
        broadcast = Broadcast(1, simulation.model.weights.copy())
        with tempfile.TemporaryDirectory() as folder:
            engines = [kind(simulation, ClientStates(Path(folder))) for kind in (Vectorized, Serial)]
            work: dict[str, Callable[[], None]] = {
                type(engine).__name__: lambda engine=engine, count=count, broadcast=broadcast: list(
                    engine.train(range(count), broadcast)
                )
                for engine in engines
            }
            for _ in range(11):
                work["Vectorized"]()
            many, one = (low(seconds) for seconds in interleaved(work, rounds).values())
        print(
            f"{what:20} {simulation.context.parameters:>8,} parameters, "
            f"cohort {min(count, engines[0].cohort):>2}: "
            f"{one / many:5.1f} times as fast as serial"
        )


def checks(times: int = 10) -> None:
    """A round of LeNet with the checks of updates, against one that adds them unseen."""
    simulation = simulation_of(images(10, 100), LeNet((3, 32, 32), 10), 10, epochs=1, batch_size=50, lr=0.01)
    with tempfile.TemporaryDirectory() as folder:
        engine, run_state = Serial(simulation, ClientStates(Path(folder))), start_state(simulation)
        one_round(simulation, engine, run_state)
        broadcast, context = Broadcast(2, run_state.weights), simulation.context_in(2)
        updates = list(engine.train(range(10), broadcast))
        past = run_state.norms

        def aggregator() -> Aggregator:
            return Aggregator(simulation.method, broadcast.weights, context, past, simulation.limits)

        def checked() -> None:
            made = aggregator()
            for update in updates:
                list(made.receive(update))
            list(made.settle())

        def unseen() -> None:
            made = aggregator()
            for update in updates:
                made.add(update)

        training = {"a round": lambda: list(engine.train(range(10), broadcast))}
        seconds = interleaved({"checked": checked, "unseen": unseen, **training}, times)
    extra = low(seconds["checked"]) - low(seconds["unseen"])
    print(f"checks of 10 updates of LeNet: {extra:.4f} s, ratio {1 + extra / low(seconds['a round']):.4f}")


def checkpoints(times: int = 10) -> None:
    """What a checkpoint of LeNet takes, and of that the digests, against the round before it."""
    simulation = simulation_of(images(10, 100), LeNet((3, 32, 32), 10), 10, epochs=1, batch_size=50, lr=0.01)
    with tempfile.TemporaryDirectory() as home, RunFolder(Path(home) / "run") as folder:
        states = ClientStates(Path(home) / "run/states")
        engine, run_state = Serial(simulation, states), start_state(simulation)
        vectors = {**run_state.weights.vectors(), **run_state.server}
        seconds = interleaved(
            {
                "a round": lambda: one_round(simulation, engine, run_state),
                "a checkpoint": lambda: folder.checkpoint(run_state, states),
                "digests": lambda: digest(vectors, ""),
            },
            times,
        )
    took = {name: low(values) for name, values in seconds.items()}
    print(", ".join(f"{name} of LeNet {value:.4f} s" for name, value in took.items()))
    for name in ("a checkpoint", "digests"):
        print(f"{name} after every round: ratio {1 + took[name] / took['a round']:.4f}")


KERNELS = {
    "convolutions": ("convolution",),
    "max-pooling": ("max_pool",),
    "linear layers": ("aten::mm", "addmm"),
    "copies and zeros": ("copy_", "fill_", "zero_", "index", "gather", "cat"),
}


def kernels(clients: int = 8) -> None:
    """Which of torch's operations a client of LeNet spends its time in, and what is outside of them."""
    federation = images(clients, 448)
    simulation = simulation_of(federation, LeNet((3, 32, 32), 10), clients, epochs=3, batch_size=64, lr=0.01)
    run_state = start_state(simulation)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        engine = Serial(simulation, ClientStates(Path(folder)))
        one_round(simulation, engine, run_state)
        began = time.perf_counter()
        one_round(simulation, engine, run_state)
        plain = time.perf_counter() - began
        with profile(activities=[ProfilerActivity.CPU]) as found:
            one_round(simulation, engine, run_state)
    spent: dict[str, float] = dict.fromkeys([*KERNELS, "other operations"], 0.0)
    for event in found.key_averages():
        if event.key.startswith("aten::"):
            kind = next((k for k, names in KERNELS.items() if any(n in event.key for n in names)), None)
            spent[kind or "other operations"] += event.self_cpu_time_total / 1e6
    for kind, seconds in spent.items():
        print(f"LeNet, {kind}: {100 * seconds / plain:.0f}% of a round")
    print(f"LeNet, outside of operations: {100 * (1 - sum(spent.values()) / plain):.0f}% of a round")


SECTIONS = {f.__name__: f for f in (process, serial, fields, vectorized, sizes, checks, checkpoints, kernels)}

if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name]()
