"""Speed of the engines, as ratios within one run: against bare PyTorch and against each other.

    python -m benchmarks.engines [section ...]

process, serial and vectorized: rounds against the usual training loop, and against the ratios stored in
ratios.json, which the section store replaces by those of the sections before it; lockstep: many runs at once;
sizes: vectorized against serial for models of different sizes; methods: rounds of each method against FedAvg;
adapters: a GPT-2 with LoRA against the usual loop with transformers and peft; checks, checkpoints and
kernels: parts of a round; ray: one and two nodes on this machine.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.harness import (
    build,
    logistic,
    low,
    mlp,
    print_ratio,
    random_federation,
    rounds_of,
    run_sections,
    store,
    time_in_turn,
)
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from eunoe.cli.demo import CONFIG as DEMO
from eunoe.config.options import Split
from eunoe.config.schema import make_config
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.data.loading import load
from eunoe.data.partitions.without_labels import Iid
from eunoe.data.samples import Samples
from eunoe.engines.client_states import ClientStates
from eunoe.engines.process import Process
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.engines.vectorized.engine import Vectorized
from eunoe.models.cnn import LeNet, SignalCNN, SmallCNN
from eunoe.models.hf import HF, Lora
from eunoe.models.mlp import MLP
from eunoe.models.text_cnn import TextBag
from eunoe.search.sweep import plan
from eunoe.server.aggregator import Aggregator
from eunoe.server.updates import Broadcast
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.loop import run_round
from eunoe.simulation.many import Planned, execute
from eunoe.store.checkpoints import start_state
from eunoe.store.folder import RunFolder
from eunoe.system.machine import keep_freed_memory
from eunoe.system.tensor_files import digest

CIFAR = (32, 32, 3)
Client = tuple[Tensor, Tensor]


def classifier_loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(net(x), y)


def language_model_loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(net(input_ids=x).logits.flatten(0, 1), y.flatten())


def train_usual(
    net: nn.Module,
    clients: Sequence[Client],
    epochs: int,
    batch: int,
    loss: Callable[[nn.Module, Tensor, Tensor], Tensor] = classifier_loss,
) -> list[Tensor]:
    """Train clients as a training loop is usually written; return the mean of their models."""
    trained = [p for p in net.parameters() if p.requires_grad]
    start = [p.detach().clone() for p in trained]
    total = [torch.zeros_like(p) for p in start]
    for x, y in clients:
        with torch.no_grad():
            for p, s in zip(trained, start, strict=True):
                p.copy_(s)
        optimizer = torch.optim.SGD(trained, lr=0.01)
        for _ in range(epochs):
            for rows in torch.randperm(len(x)).split(batch):
                optimizer.zero_grad()
                loss(net, x[rows], y[rows]).backward()
                optimizer.step()
        for t, p in zip(total, trained, strict=True):
            t.add_(p.detach(), alpha=1 / len(clients))
    return total


def client_data(federation: Federation, clients: int) -> list[Client]:
    """Return the inputs, as floats that need no further work, and labels of the first clients."""
    rows = [torch.from_numpy(federation.rows(client)) for client in range(clients)]
    return [(federation.inputs("clients", r).contiguous(), federation.data.train.y[r]) for r in rows]


def lenet_rounds(clients: int, size: int, participants: int, **training: Any) -> Simulation:
    return build(
        random_federation(clients, size, CIFAR), LeNet((3, 32, 32), 10), participants, lr=0.01, **training
    )


# Models of which a step is short, with data for them: 10 clients of 16 samples, for 10 steps of 8 each.
SMALL: dict[str, tuple[Callable[[], Federation], Callable[[], nn.Module]]] = {
    "an MLP": (lambda: random_federation(10, 16), mlp),
    "logistic regression": (lambda: random_federation(10, 16), logistic),
    "text_bag": (lambda: random_federation(10, 16, (32,), "tokens"), lambda: TextBag((32,), 10, 256)),
    "signal_cnn": (lambda: random_federation(10, 16, (64, 6), "floats"), lambda: SignalCNN((64, 6), 10)),
}
SHORT = {"epochs": 5, "batch_size": 8, "lr": 0.01}


def usual_lenet() -> nn.Module:
    """Return LeNet as it is usually written."""
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def process(repeats: int = 12) -> None:
    """Rounds on two workers against two bare processes that do the same steps."""
    long = {"epochs": 3, "batch_size": 64}
    _against_bare("LeNet", lenet_rounds(100, 448, 10, **long), usual_lenet(), long, repeats, 1 / 1.1)
    federation, make_net = SMALL["an MLP"]
    simulation = build(federation(), make_net(), 10, **SHORT)
    _against_bare("an MLP", simulation, make_net(), SHORT, 20 * repeats, 1.0)


def _against_bare(
    title: str,
    simulation: Simulation,
    net: nn.Module,
    training: dict[str, Any],
    repeats: int,
    limit: float,
) -> None:
    clients = client_data(simulation.federation, 10)
    context = multiprocessing.get_context("fork")
    pipes = []
    steps = training["epochs"], training["batch_size"]
    for worker in range(2):
        ours, theirs = context.Pipe()
        given = theirs, net, clients[worker::2], *steps
        context.Process(target=_bare_worker, args=given, daemon=True).start()
        pipes.append(ours)

    def bare() -> None:
        for pipe in pipes:
            pipe.send("go")
        for pipe in pipes:
            pipe.recv()

    with rounds_of(simulation, Process, workers=2) as train:
        work = {"eunoe": train, "bare": bare}
        time_in_turn(work, 2)
        print_ratio(f"process engine, {title}", time_in_turn(work, repeats), limit)
    for pipe in pipes:
        pipe.send("")


def _bare_worker(pipe: Any, net: nn.Module, clients: Sequence[Client], epochs: int, batch: int) -> None:
    torch.set_num_threads(1)
    while pipe.recv():
        train_usual(net, clients, epochs, batch)
        pipe.send("done")


def serial(repeats: int = 100) -> None:
    """Rounds of small networks against the usual loop, in processor time."""
    cases = {f"100 steps of {title}": case for title, case in SMALL.items()}
    cases["1,000 steps of an MLP"] = (lambda: random_federation(10, 160), mlp)
    for title, (make_federation, make_net) in cases.items():
        federation, net = make_federation(), make_net()
        clients = client_data(federation, 10)
        with rounds_of(build(federation, make_net(), 10, **SHORT)) as train:
            work = {"eunoe": train, "usual": lambda net=net, clients=clients: train_usual(net, clients, 5, 8)}
            time_in_turn(work, 2)
            seconds = time_in_turn(work, repeats, time.process_time)
        print_ratio(f"serial engine, {title}", seconds, 1.0)


def vectorized(repeats: int = 40) -> None:
    """Rounds of small clients at once against the usual loop."""
    for title, count, make_net, speedup in (
        ("10 clients of an MLP", 10, mlp, 8),
        ("50 clients of logistic regression", 50, logistic, 10),
    ):
        federation, net = random_federation(count, 16), make_net()
        clients = client_data(federation, count)
        simulation = build(federation, make_net(), count, epochs=5, batch_size=8, lr=0.01)
        with rounds_of(simulation, Vectorized) as train:
            work = {"eunoe": train, "usual": lambda net=net, clients=clients: train_usual(net, clients, 5, 8)}
            time_in_turn(work, 2)
            seconds = time_in_turn(work, repeats)
        print_ratio(f"vectorized engine, {title}, batch 8, 5 epochs of 16", seconds, 1 / speedup)


# Fifteen runs of logistic regression on digits, with 5 clients a round.
RATES = {
    "rounds": 60,
    "participation": 5,
    "data": "digits",
    "partition": {"name": "dirichlet", "clients": 50, "alpha": 0.5},
    "model": "logistic",
    "training": {"epochs": 5, "batch_size": 8},
    "probes": [],
}


def lockstep(repeats: int = 3) -> None:
    """Many runs in lockstep on two processes, against the same runs on two process workers."""
    rates = plan(RATES, {"training.lr": [0.01, 0.03, 0.1]}, range(5), Path("rates"))
    cases = {
        "20 seeds of the demo": (plan(DEMO, {}, range(20), Path("demo")), 6),
        "3 rates x 5 seeds of logistic regression": (rates, 8),
    }
    process: dict[str, Any] = {"engine": {"name": "process", "workers": 2}}
    for title, (runs, speedup) in cases.items():
        work = {
            "lockstep": partial(_execute, runs, {}, jobs=2),
            "engine process": partial(_execute, runs, process),
            "serial runs in two processes": partial(_execute, runs, {}, jobs=2, exact=True),
        }
        seconds = time_in_turn(work, repeats)
        for other in list(work)[1:]:
            pair = {"lockstep": seconds["lockstep"], other: seconds[other]}
            print_ratio(title, pair, 1 / speedup)


def _execute(runs: Sequence[Planned], values: dict[str, Any], **options: Any) -> None:
    with tempfile.TemporaryDirectory() as home:
        execute(
            [replace(run, values={**run.values, **values}, folder=Path(home) / run.folder) for run in runs],
            **options,
        )


def sizes(repeats: int = 8) -> None:
    """Speed of the vectorized engine against the serial one, for models of different sizes."""
    cases: dict[str, tuple[Federation, nn.Module]] = {
        "logistic regression": (random_federation(40, 16), logistic()),
        "MLP of 128": (random_federation(40, 16), mlp()),
        "MLP of 512": (random_federation(40, 16), MLP((64,), 10, hidden=(512,))),
        "MLP of 1024": (random_federation(40, 16), MLP((64,), 10, hidden=(1024,))),
        "MLP of 512 and 512": (random_federation(20, 16), MLP((64,), 10, hidden=(512, 512))),
        "small CNN, 8 x 8": (random_federation(40, 16, (8, 8)), SmallCNN((1, 8, 8), 10)),
        "LeNet, 32 x 32": (random_federation(8, 16, CIFAR), LeNet((3, 32, 32), 10)),
    }
    for title, (federation, net) in cases.items():
        simulation = build(federation, net, len(federation), epochs=5, batch_size=8, lr=0.01)
        broadcast = Broadcast(1, simulation.model.weights.copy())
        round = simulation.in_round(1), range(len(federation)), broadcast
        with tempfile.TemporaryDirectory() as folder:
            engines = [kind(simulation, ClientStates(Path(folder))) for kind in (Vectorized, Serial)]
            work = {
                type(engine).__name__: lambda train=engine.train, round=round: list(train(*round))
                for engine in engines
            }
            time_in_turn(work, 1)
            seconds = time_in_turn(work, repeats)
        speedup = low(seconds["Serial"]) / low(seconds["Vectorized"])
        parameters = simulation.context.model.parameters
        print(f"{title:20} {parameters:>8,} parameters: {speedup:5.1f} times as fast as serial", flush=True)


HEAD = {"name": "cnn", "head": True}
# What differs from FedAvg, what the round is compared with, and the largest ratio allowed.
METHODS: dict[str, tuple[dict[str, Any], str, float | None]] = {
    "fedavg": ({}, "fedavg", None),
    "fedavg, clipped": ({"training": {"clip": 10.0}}, "fedavg", None),
    "fedavg, with head": ({"model": HEAD}, "fedavg", None),
    **{name: ({"method": name}, "fedavg", 1.05) for name in ("fedprox", "scaffold", "feddyn", "fednova")},
    **{
        name: ({"method": name}, "fedavg", None)
        for name in ("fedadam", "fedexp", "gma", "fedacg", "fedcm", "fedsam", "fedvls", "fedreg")
    },
    "scaffold, option I": ({"method": {"name": "scaffold", "option": "I"}}, "fedavg", None),
    "fedntd": ({"method": "fedntd"}, "fedavg", 1.15),
    "flashback's clients": ({"method": {"name": "flashback", "server_epochs": 0}}, "fedavg", 1.15),
    "moon": ({"method": "moon", "model": HEAD}, "fedavg, with head", 1.25),
    "fedcurv": ({"method": {"name": "fedcurv", "weight": 0.001}}, "fedavg", 1.35),
    "fedcurv, 1% kept": ({"method": {"name": "fedcurv", "weight": 0.001, "kept": 0.01}}, "fedavg", None),
}


def methods(repeats: int = 7) -> None:
    """Processor time of a round of each method against FedAvg: CIFAR-10, CNN, 2 clients of 500, 5 epochs."""
    data = load("cifar10")
    data = replace(data, train=Samples(data.train.x[:1000], data.train.y[:1000]))
    federation = Federation.build(data, Iid(clients=2), split=Split(validation=0.0))
    with ExitStack() as stack:
        work = {}
        for name, (changes, _, _) in METHODS.items():
            training = {"epochs": 5, "batch_size": 50, "lr": 0.01, **changes.get("training", {})}
            config = make_config({"participation": 2, "model": "cnn", **changes, "training": training})
            simulation, _ = assemble(config, UserObjects(federation=federation))
            work[name] = stack.enter_context(rounds_of(simulation))
        # From the second round on, clients have a state.
        time_in_turn(work, 1)
        seconds = time_in_turn(work, repeats, time.process_time)
    print(f"{'method':22} {'seconds':>8} {'ratio':>7} {'allowed':>8}")
    for name, (_, base, allowed) in METHODS.items():
        limit = "" if allowed is None else f"{allowed:.2f}"
        print(
            f"{name:22} {low(seconds[name]):8.2f} {low(seconds[name]) / low(seconds[base]):7.3f} {limit:>8}"
        )


TOKENS, LENGTH = 1000, 64


def adapters(repeats: int = 20) -> None:
    """Tokens a second of a GPT-2 of random weights with LoRA, against the usual loop on the same batches."""
    from peft import LoraConfig, TaskType, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM

    blocks = np.random.default_rng(0).integers(0, TOKENS, (800, LENGTH + 1))
    sample = blocks[:, :-1], blocks[:, 1:]
    data = from_arrays(*sample, *(part[:8] for part in sample), classes=TOKENS, task="language_model")
    federation = Federation.build(data, Iid(clients=5), split=Split(validation=0.0))
    clients = client_data(federation, 5)
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": TOKENS, "n_positions": LENGTH}
    config = AutoConfig.for_model("gpt2", **sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        net = HF(TOKENS, causal_lm=True, lora=Lora(targets=("c_attn",)), random=True, **{"from": folder})
    options = LoraConfig(task_type=TaskType.CAUSAL_LM, r=8, lora_alpha=16, target_modules=["c_attn"])
    bare = get_peft_model(AutoModelForCausalLM.from_config(config), options)
    with rounds_of(build(federation, net, 5, epochs=1, batch_size=8, lr=0.01)) as train:
        work = {"eunoe": train, "usual": partial(train_usual, bare, clients, 1, 8, language_model_loss)}
        time_in_turn(work, 1)
        seconds = time_in_turn(work, repeats, time.process_time)
    print_ratio("serial engine, 100 steps of a GPT-2 with LoRA", seconds, 1.05)
    rates = {name: blocks[:, 1:].size / low(values) for name, values in seconds.items()}
    print(", ".join(f"{name} {rate:,.0f} tokens a second" for name, rate in rates.items()))


def checks(repeats: int = 10) -> None:
    """Cost of checking 10 updates of LeNet, against aggregating them unchecked."""
    simulation = lenet_rounds(10, 100, 10, epochs=1, batch_size=50)
    with tempfile.TemporaryDirectory() as folder:
        engine, run_state = Serial(simulation, ClientStates(Path(folder))), start_state(simulation)
        run_round(simulation, engine, run_state)
        broadcast, now = Broadcast(2, run_state.weights), simulation.in_round(2)
        updates = list(engine.train(now, range(10), broadcast))

        def aggregator() -> Aggregator:
            return now.aggregator(broadcast, run_state.norms)

        def checked() -> None:
            aggregate = aggregator()
            for update in updates:
                list(aggregate.receive(update))
            list(aggregate.settle())

        def unchecked() -> None:
            aggregate = aggregator()
            for update in updates:
                aggregate.add(update)

        work = {
            "checked": checked,
            "unchecked": unchecked,
            "training": lambda: list(engine.train(now, range(10), broadcast)),
        }
        seconds = time_in_turn(work, repeats)
    extra = low(seconds["checked"]) - low(seconds["unchecked"])
    print(f"checks of 10 updates of LeNet: {extra:.4f} s, ratio {1 + extra / low(seconds['training']):.4f}")


def checkpoints(repeats: int = 10) -> None:
    """Time of a checkpoint of LeNet and of its digests, against the round before it."""
    simulation = lenet_rounds(10, 100, 10, epochs=1, batch_size=50)
    with tempfile.TemporaryDirectory() as home, RunFolder(Path(home) / "run") as folder:
        states = ClientStates(Path(home) / "run/states")
        engine, run_state = Serial(simulation, states), start_state(simulation)
        vectors = {**run_state.weights.vectors(), **run_state.server}
        work = {
            "round": lambda: run_round(simulation, engine, run_state),
            "checkpoint": lambda: folder.checkpoint(run_state, states),
            "digests": lambda: digest(vectors, ""),
        }
        seconds = {name: low(values) for name, values in time_in_turn(work, repeats).items()}
    print(", ".join(f"{name} of LeNet {value:.4f} s" for name, value in seconds.items()))
    for name in ("checkpoint", "digests"):
        print(f"{name} after every round: ratio {1 + seconds[name] / seconds['round']:.4f}")


KERNELS = {
    "convolutions": ("convolution",),
    "max-pooling": ("max_pool",),
    "linear layers": ("aten::mm", "addmm"),
    "copies and zeros": ("copy_", "fill_", "zero_", "index", "gather", "cat"),
}


def kernels(clients: int = 8) -> None:
    """Share of torch's operations in a round of LeNet."""
    keep_freed_memory()
    with rounds_of(lenet_rounds(clients, 448, clients, epochs=3, batch_size=64)) as train:
        train()
        (plain,) = time_in_turn({"round": train}, 1)["round"]
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            train()
    spent: dict[str, float] = dict.fromkeys([*KERNELS, "other operations"], 0.0)
    for event in profiler.key_averages():
        if event.key.startswith("aten::"):
            kind = next((k for k, names in KERNELS.items() if any(n in event.key for n in names)), None)
            spent[kind or "other operations"] += event.self_cpu_time_total / 1e6
    for kind, seconds in spent.items():
        print(f"LeNet, {kind}: {100 * seconds / plain:.0f}% of a round")
    print(f"LeNet, outside of operations: {100 * (1 - sum(spent.values()) / plain):.0f}% of a round")


def ray(repeats: int = 5) -> None:
    """Rounds of LeNet on one and on two single-core Ray nodes of this machine, which needs two idle cores."""
    from ray.cluster_utils import Cluster

    from eunoe.engines.ray.engine import Ray

    simulation = lenet_rounds(100, 448, 10, epochs=3, batch_size=64)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.add_node(num_cpus=1)
    try:
        with rounds_of(simulation, Ray, address=cluster.address) as train:
            # The first round starts the workers.
            one = low(time_in_turn({"one": train}, repeats + 1)["one"][1:])
            cluster.add_node(num_cpus=1)
            two = low(time_in_turn({"two": train}, repeats + 1)["two"][1:])
    finally:
        cluster.shutdown()
    print(f"Ray, LeNet: {one:.2f} s on one node, {two:.2f} s on two, ratio {one / two:.2f} (at least 1.7)")


if __name__ == "__main__":
    rounds = [process, serial, vectorized, lockstep, sizes, methods, adapters]
    sections = [*rounds, checks, checkpoints, kernels, ray]
    run_sections(__doc__, sections, named=[store])
