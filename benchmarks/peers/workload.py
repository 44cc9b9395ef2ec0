"""The workloads of the comparison, imported by each program in its own environment.

A program is started with the name of a workload and of its own variant. It prints a line when it is ready;
then, for each number that it reads, it runs as many rounds and prints the seconds that they took.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

LR = 0.01
CORES = len(os.sched_getaffinity(0))


def logistic() -> nn.Module:
    return nn.Linear(64, 10)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


@dataclass(frozen=True)
class Workload:
    shape: tuple[int, ...]
    clients: int
    participants: int
    samples: int
    epochs: int
    batch: int
    make: Callable[[], nn.Module]

    def net(self) -> nn.Module:
        torch.manual_seed(0)
        return self.make()

    def clients_data(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return each client's inputs, as floats that need no further work, and labels."""
        rng = torch.Generator().manual_seed(0)
        labels = torch.arange(self.samples) % 10
        return [(torch.randn(self.samples, *self.shape, generator=rng), labels) for _ in range(self.clients)]


WORKLOADS = {
    "mlp": Workload((64,), clients=10, participants=10, samples=16, epochs=5, batch=8, make=mlp),
    "logistic": Workload((64,), clients=50, participants=50, samples=16, epochs=5, batch=8, make=logistic),
    "lenet": Workload((3, 32, 32), clients=100, participants=10, samples=448, epochs=3, batch=64, make=lenet),
}


def train_client(net: nn.Module, x: torch.Tensor, y: torch.Tensor, work: Workload) -> None:
    """Train a client as a training loop is usually written."""
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    for _ in range(work.epochs):
        for rows in torch.randperm(len(x)).split(work.batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()


def requested_rounds() -> Iterator[int]:
    """Yield the numbers of rounds that are requested; report the seconds of each request when it is done."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Output of a library must not be read as an answer.
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        yield int(line)
        print(time.perf_counter() - start, file=answers, flush=True)
