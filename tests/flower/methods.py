"""A method and a model whose bits depend on everything that may travel or be kept."""

from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import nn

from eunoe.methods.base import Finished, Method, Upload
from tests.waiting import until


class Remembers(Method):
    """Every client adds up its own steps; the server sends back the mean of what they added up."""

    def start(self, weights: Any, context: Any) -> dict[str, torch.Tensor]:
        return {"mean": torch.zeros(context.model.parameters)}

    def broadcast(self, server: Any, context: Any) -> dict[str, torch.Tensor]:
        return {"mean": server["mean"]}

    def client_state(self, context: Any) -> dict[str, int]:
        return {"sum": context.model.parameters}

    def uploads(self, context: Any) -> dict[str, Upload]:
        return {"sum": Upload("uniform", context.model.parameters)}

    def correct(self, client: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient + 0.1 * (client.state["sum"] - client.shared["mean"])

    def finish(self, client: Any) -> Finished:
        total = client.state["sum"] + client.weights - client.start.parameters
        return Finished({"sum": total}, {"sum": total})

    def aggregate(self, server: Any, aggregate: Any, context: Any) -> Any:
        server = {**server, "mean": aggregate.mean("sum").float()}
        return super().aggregate(server, aggregate, context)


class Held(Remembers):
    """Like Remembers, but some clients wait in a round until a file exists."""

    gate: str = Field(description="The file.")
    held: list[int] = Field(description="The clients.")
    round: int = 1

    def begin(self, client: Any) -> None:
        if client.id in self.held and client.context.round == self.round:
            until(Path(self.gate).exists)


class Normed(nn.Sequential):
    """A model with float and integer buffers."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        inputs = int(torch.tensor(shape).prod())
        super().__init__(nn.Flatten(), nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.Linear(16, classes))
