"""A method and a model whose bits depend on everything that may travel or be kept."""

import time
from typing import Any

import torch
from torch import nn

from eunoe.methods.base import Finished, Method, Upload


class Remembers(Method):
    """Every client adds up its own steps; the server sends back the mean of what they added up."""

    def start(self, weights: Any, context: Any) -> dict[str, torch.Tensor]:
        return {"mean": torch.zeros(context.parameters)}

    def broadcast(self, server: Any, context: Any) -> dict[str, torch.Tensor]:
        return {"mean": server["mean"]}

    def client_state(self, context: Any) -> dict[str, int]:
        return {"sum": context.parameters}

    def uploads(self, context: Any) -> dict[str, Upload]:
        return {"sum": Upload("uniform", context.parameters)}

    def correct(self, client: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient + 0.1 * (client.state["sum"] - client.shared["mean"])

    def finish(self, client: Any) -> Finished:
        total = client.state["sum"] + client.weights - client.start.parameters
        return Finished({"sum": total}, {"sum": total})

    def merge(self, server: Any, aggregate: Any, context: Any) -> Any:
        server = {**server, "mean": aggregate.mean("sum").float()}
        return super().merge(server, aggregate, context)


class Slow(Remembers):
    """The same, in time for a kill."""

    def begin(self, client: Any) -> None:
        time.sleep(4)


class Normed(nn.Sequential):
    """A model with float and integer buffers."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        inputs = int(torch.tensor(shape).prod())
        super().__init__(nn.Flatten(), nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.Linear(16, classes))


class FirstIsLast(Remembers):
    """The same; client 0 takes its time, so that others may be lost while the server waits for it."""

    def begin(self, client: Any) -> None:
        time.sleep(45 if client.id == 0 else 4)
