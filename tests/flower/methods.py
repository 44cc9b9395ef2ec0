"""A method and a model whose bits depend on everything that may travel or be kept."""

import time
from typing import Any

import torch
from torch import nn

from eunoe.methods.base import Finished, Method, Upload


class Remembers(Method):
    """Every client adds up its own steps; the server sends back the mean of what they added up."""

    def start(self, weights: Any, setting: Any) -> dict[str, torch.Tensor]:
        return {"mean": torch.zeros(setting.parameters)}

    def broadcast(self, server: Any, setting: Any) -> dict[str, torch.Tensor]:
        return {"mean": server["mean"]}

    def client_state(self, setting: Any) -> dict[str, int]:
        return {"sum": setting.parameters}

    def uploads(self, setting: Any) -> dict[str, Upload]:
        return {"sum": Upload("uniform", setting.parameters)}

    def correct(self, local: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient + 0.1 * (local.own["sum"] - local.shared["mean"])

    def finish(self, local: Any) -> Finished:
        total = local.own["sum"] + local.weights - local.start.parameters
        return Finished({"sum": total}, {"sum": total})

    def merge(self, server: Any, sums: Any, setting: Any) -> Any:
        server = {**server, "mean": sums.mean("sum").float()}
        return super().merge(server, sums, setting)


class Slow(Remembers):
    """The same, in time for a kill."""

    def begin(self, local: Any) -> None:
        time.sleep(4)


class Normed(nn.Sequential):
    """A model with float and integer buffers."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        inputs = int(torch.tensor(shape).prod())
        super().__init__(nn.Flatten(), nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.Linear(16, classes))
