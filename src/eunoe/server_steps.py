"""What the server does with the averaged update."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

if TYPE_CHECKING:
    from eunoe.merging import Sums

Vectors = dict[str, Tensor]


class ServerStep(BaseModel):
    """Base of the server steps: a learning rate, and state that the checkpoint carries."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lr: float = Field(1.0, gt=0, allow_inf_nan=False, description="The server's learning rate.")

    def derived(self) -> dict[str, Callable[[Tensor], Tensor]]:
        """Further functions of each client's change whose mean the step needs."""
        return {}

    def start(self, parameters: Tensor) -> Vectors:
        """The step's own state before the first round."""
        return {}

    def apply(self, parameters: Tensor, direction: Tensor, server: Vectors, sums: "Sums") -> Tensor:
        """New parameters from the old and the averaged change (float64); updates its state in `server`."""
        return (parameters.double() + self.lr * self.move(direction, server)).to(parameters.dtype)

    def move(self, direction: Tensor, server: Vectors) -> Tensor:
        """The averaged change as this step follows it."""
        return direction


class Average(ServerStep):
    """Follow the averaged change."""
