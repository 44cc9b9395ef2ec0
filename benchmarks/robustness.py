"""What each aggregation keeps under malicious clients, and how many honest clients the checks drop.

    python -m benchmarks.robustness [section ...] [--seeds 0 1 2] [--rounds 10] [--long 500]

sign_flip, copies and backdoor: digits, MLP, all of 10 clients in every round, learning rate 0.2. Three
clients send their update times -10; three send one vector, -0.3 times the mean of the honest updates; two
train on images with a white corner and label 0, and send their update times 5. `backdoor` also counts the
test images with a white corner that become a 0. They print the tables of docs/robustness.md. honest: dropped
updates of honest clients, 10 of 40 in each of `long` rounds, for every model that trains here.
"""

import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.harness import run_sections
from torch import nn

from eunoe.analysis.statistics import mean_std
from eunoe.config.schema import make_config
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.data.loading import load
from eunoe.data.partitions.without_labels import Iid
from eunoe.data.samples import Samples
from eunoe.engines.attacks import bad_clients
from eunoe.engines.base import evaluate_chunk
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.errors import RunFailed
from eunoe.metrics.base import Rows
from eunoe.server.updates import Broadcast, Update
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.loop import run_round
from eunoe.store.checkpoints import start_state

CLIENTS, MANY = 10, 40
GIVEN = {"data": "given", "partition": "given"}
PARTITIONS: dict[str, dict[str, Any]] = {
    "iid": {"name": "iid", "clients": CLIENTS},
    "alpha 0.1": {"name": "dirichlet", "clients": CLIENTS, "alpha": 0.1},
}
BASE = {"data": "digits", "participation": 1.0, "probes": [], "training": {"lr": 0.2}, "engine": "serial"}
RULES = ("mean", "norm_clip", "median", "trimmed_mean", "krum", "multi_krum", "geometric_median")


def aggregation(name: str, bad: int) -> dict[str, Any]:
    """Return an aggregation with the options for so many malicious clients."""
    options: dict[str, dict[str, Any]] = {
        "trimmed_mean": {"share": bad / CLIENTS},
        "krum": {"bad": bad},
        "multi_krum": {"bad": bad, "keep": CLIENTS - bad - 2},
        "geometric_median": {"iterations": 20},
    }
    return {"name": name, **options.get(name, {})}


class Copying(Serial):
    """An engine whose first three clients send one vector: -0.3 times the mean of the honest changes."""

    def train(self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        updates = list(super().train(simulation, clients, broadcast))
        start = broadcast.weights.parameters
        honest = [update.weights.parameters - start for update in updates if update.client > 2]
        sent = start - 0.3 * torch.stack(honest).mean(0)
        for update in updates:
            bad = update.client <= 2
            yield (
                replace(update, weights=replace(update.weights, parameters=sent.clone())) if bad else update
            )


def mark_corner(x: torch.Tensor) -> torch.Tensor:
    """Return images with a white corner of 2 x 2 pixels."""
    x = x.clone()
    x[:, -2:, -2:] = 255
    return x


def poison(simulation: Simulation) -> Simulation:
    """Mark half of the training images of the malicious clients and label them 0."""
    federation, attack = simulation.federation, simulation.attack
    assert attack is not None
    x, y = federation.data.train.tensor.clone(), federation.data.train.y.clone()
    for client in bad_clients(attack, len(federation), simulation.context.seed):
        rows = torch.from_numpy(federation.rows(client)[::2])
        x[rows], y[rows] = mark_corner(x[rows]), 0
    data = replace(federation.data, train=Samples(x, y))
    return replace(simulation, federation=replace(federation, data=data))


def train(simulation: Simulation, rounds: int, engine: type[Serial] = Serial) -> tuple[float, float]:
    """Return the test accuracy after so many rounds, and the share of marked images that become a 0."""
    state, test = start_state(simulation), simulation.federation.data.test
    with tempfile.TemporaryDirectory() as folder, engine(simulation, ClientStates(Path(folder))) as running:
        for _ in range(rounds):
            try:
                run_round(simulation, running, state)
            except RunFailed:
                break
    rows = Rows("test", np.arange(len(test.y)))
    right = evaluate_chunk(simulation, state.weights, rows).predicted == test.y.numpy()
    marked = replace(simulation.federation.data, test=Samples(mark_corner(test.tensor), test.y))
    simulation = replace(simulation, federation=replace(simulation.federation, data=marked))
    others = test.y.numpy() != 0
    fooled = evaluate_chunk(simulation, state.weights, rows).predicted[others] == 0
    return float(right.mean()), float(fooled.mean())


def simulate(seed: int, partition: str, rule: str, bad: int, **values: Any) -> Simulation:
    """Build a simulation of the table."""
    own = {"seed": seed, "partition": PARTITIONS[partition], "aggregation": aggregation(rule, bad)}
    return assemble(make_config({**BASE, **own, **values}))[0]


def print_table(
    title: str, measure: Callable[[int, str, str], tuple[float, ...]], heads: Sequence[str], seeds: Any
) -> None:
    """Print a row for each rule, with the numbers of each partition."""
    columns = [f"{partition}, {head}" for partition in PARTITIONS for head in heads]
    print(f"\n**{title}**\n\n| rule | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for rule in RULES:
        cells = []
        for partition in PARTITIONS:
            found = np.array([measure(seed, partition, rule) for seed in seeds])
            cells += [mean_std(list(column), 3) for column in found.T]
        print(f"| `{rule}` | {' | '.join(cells)} |", flush=True)


def sign_flip(seeds: tuple[int, ...], rounds: int) -> None:
    """No malicious client, and three that send their update times -10."""

    def measure(seed: int, partition: str, rule: str) -> tuple[float, ...]:
        attack = {"name": "sign_flip", "share": 0.3, "scale": 10}
        clean, flipped = simulate(seed, partition, rule, 1), simulate(seed, partition, rule, 3, attack=attack)
        return train(clean, rounds)[0], train(flipped, rounds)[0]

    print_table("sign_flip", measure, ("0%", "30%"), seeds)


def copies(seeds: tuple[int, ...], rounds: int) -> None:
    """Three clients send one vector."""

    def measure(seed: int, partition: str, rule: str) -> tuple[float, ...]:
        return train(simulate(seed, partition, rule, 3), rounds, Copying)[:1]

    print_table("copies", measure, ("30%",), seeds)


def backdoor(seeds: tuple[int, ...], rounds: int) -> None:
    """Two clients train a backdoor and scale their updates."""

    def measure(seed: int, partition: str, rule: str) -> tuple[float, ...]:
        attack = {"name": "scaled", "share": 0.2, "scale": 5}
        return train(poison(simulate(seed, partition, rule, 2, attack=attack)), rounds)

    print_table("backdoor", measure, ("accuracy", "success"), seeds)


def batch_norm_mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))


def batch_norm_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


def federation_of(kind: str) -> Federation:
    """Return digits of 16 x 16 pixels, or windows of signals or token ids with four classes to learn."""
    rng, y, classes = np.random.default_rng(0), np.arange(1600) % 4, 4
    if kind == "images":
        digits = load("digits").train
        x: Any = np.kron(digits.tensor.numpy()[:1600], np.ones((1, 2, 2), np.uint8))
        y, classes = digits.y.numpy()[: len(x)], 10
    elif kind == "signals":
        x = np.sin(2 * np.pi * np.outer(y + 1, np.arange(64) / 64))[..., None]
        x = (x + 0.3 * rng.normal(size=(len(y), 64, 3))).astype(np.float32)
    else:
        x = rng.integers(2, 50, (len(y), 16)).astype(np.int16)
        x[:, :3] = (50 + y)[:, None]
    held = len(y) // 5
    data = from_arrays(x[held:], y[held:], x[:held], y[:held], classes=classes)
    return Federation.build(data, Iid(clients=MANY))


def honest_cases() -> Iterator[tuple[str, dict[str, Any], UserObjects]]:
    """Yield the name of each model, the config that names it, and what is not in the config."""
    for name in ("logistic", "mlp", "small_cnn", "cnn"):
        yield name, {"model": name}, UserObjects()
    for name in ("mnist_cnn", "lenet"):
        yield name, {**GIVEN, "model": name}, UserObjects(federation=federation_of("images"))
    for name, net in (("MLP with batch norm", batch_norm_mlp), ("CNN with batch norm", batch_norm_cnn)):
        torch.manual_seed(0)
        yield name, {"model": "given"}, UserObjects(model=net())
    for name, kind in (("signal_cnn", "signals"), ("text_cnn", "ids"), ("text_bag", "ids")):
        yield name, {**GIVEN, "model": name}, UserObjects(federation=federation_of(kind))


def honest(long: int) -> None:
    """Count dropped updates where every client is honest."""
    logging.getLogger("eunoe").setLevel(logging.ERROR)
    print("\n| model | rule | lr | rounds | accuracy | dropped |\n|---|---|---|---|---|---|")
    for rule, lr in (("mean", 0.05), ("median", 0.2)):
        for name, values, objects in honest_cases():
            training = {"lr": lr, "batch_size": 16}
            config = {**BASE, "partition": {"name": "iid", "clients": MANY}, "participation": CLIENTS}
            config |= {"training": training, "aggregation": rule}
            simulation = assemble(make_config({**config, **values}), objects)[0]
            accuracy, dropped = count_drops(simulation, long)
            print(f"| {name} | {rule} | {lr:g} | {long} | {accuracy:.3f} | {dropped} |", flush=True)


def count_drops(simulation: Simulation, rounds: int) -> tuple[float, int]:
    """Return the test accuracy after so many rounds, and the number of dropped updates."""
    state, dropped = start_state(simulation), 0
    with tempfile.TemporaryDirectory() as folder, Serial(simulation, ClientStates(Path(folder))) as engine:
        for _ in range(rounds):
            dropped += len(run_round(simulation, engine, state).record["dropped"])
    test = simulation.federation.data.test
    found = evaluate_chunk(simulation, state.weights, Rows("test", np.arange(len(test.y)))).predicted
    return float((found == test.y.numpy()).mean()), dropped


if __name__ == "__main__":
    run_sections(__doc__, [sign_flip, copies, backdoor, honest], seeds=(0, 1, 2), rounds=10, long=500)
