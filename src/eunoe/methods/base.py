"""What a federated method is: what travels, what a client minimises, how the server merges.

`Method` itself is federated averaging; a method overrides only what differs. It is a frozen object
of its hyper-parameters and keeps no state: the server's state and each client's are named vectors
that the engine and the checkpoint carry. It never knows which engine runs it. `loss`, `correct` and
`step` see one client and must be pure tensor code without branches on values, since an engine may
run them on many clients at once under `torch.func.vmap`; `begin` and `finish` may do anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field
from torch import Tensor

from eunoe.config.options import Options
from eunoe.core.flat_model import Weights

if TYPE_CHECKING:
    from eunoe.methods.client_context import Batch, Local
    from eunoe.methods.context import Setting
    from eunoe.training.aggregation import Sums

Vectors = dict[str, Tensor]


class Neutral(NamedTuple):
    """Where a method must equal FedAvg with the same weighting, for the tests to hold it to."""

    options: Mapping[str, Any] = {}
    # How many rounds the equality lasts; None is for ever.
    rounds: int | None = None
    # Largest difference of any parameter; 0 is bit for bit.
    tolerance: float = 0.0


class Upload(NamedTuple):
    """How the server combines something that every client sends besides its weights, and its size."""

    combine: Literal["samples", "uniform", "sum", "keep"]
    size: int
    # What it takes on the wire if that is not size numbers of the model's type.
    bytes: int | None = None


class Cost(NamedTuple):
    """What a method costs a client and a round, in multiples of the model, compared with FedAvg."""

    client_state: str = "0"
    up: str = "1"
    down: str = "1"
    client_compute: str = "0"
    server_extra: str = "0"


@dataclass(frozen=True)
class Finished:
    """What a client sends besides its weights, and what it keeps for its next participation."""

    uploads: Vectors = field(default_factory=dict)
    state: Vectors = field(default_factory=dict)


@dataclass(frozen=True)
class Merged:
    """The server after a round, what the round's record shall say of its work, and what it warns of."""

    weights: Weights
    server: Vectors
    record: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Method(Options):
    """Federated averaging: the mean of the models that the clients trained."""

    weighting: Literal["samples", "uniform"] = Field(
        "samples", description="Whether a client counts by its number of samples or all count alike."
    )

    cost: ClassVar[Cost] = Cost()
    # A method that computes the new weights by itself goes with no other server step than the average.
    takes_server_step: ClassVar[bool] = True
    # Whether clients take part at all; without them merge has only the start to go on.
    trains_clients: ClassVar[bool] = True
    # Whether merging needs every client's model at once, not only their mean.
    keeps_models: ClassVar[bool] = False
    # Whether loss, correct and step may run under vmap.
    vectorises: ClassVar[bool] = True
    neutral: ClassVar[Neutral | None] = None

    def check(self, setting: "Setting") -> list[str]:
        """Raise InputError if the setting lacks what the method needs; give warnings of what may go wrong."""
        return []

    def start(self, weights: Weights, setting: "Setting") -> Vectors:
        """The server's state before the first round."""
        return {}

    def broadcast(self, server: Vectors, setting: "Setting") -> Vectors:
        """What every client receives besides the weights."""
        return {}

    def client_state(self, setting: "Setting") -> dict[str, int]:
        """Names and sizes of what a client keeps between rounds; all zeros before its first participation."""
        return {}

    def uploads(self, setting: "Setting") -> dict[str, Upload]:
        """What a client sends besides its weights."""
        return {}

    def begin(self, local: "Local") -> None:
        """Once before a client trains: frozen networks, caches."""

    def loss(self, local: "Local", batch: "Batch") -> Tensor:
        """What the client minimises, one number per sample."""
        return local.criterion(local.forward(batch.x), batch.y)

    def correct(self, local: "Local", gradient: Tensor) -> Tensor:
        """Change a gradient (weight decay included), in place too, before it is clipped and applied."""
        return gradient

    def step(self, local: "Local", batch: "Batch") -> None:
        """One step of local training."""
        local.descend(self.correct(local, local.gradient(lambda: self.loss(local, batch), batch)))

    def finish(self, local: "Local") -> Finished:
        """Once after a client has trained."""
        return Finished()

    def contribution(self, change: Tensor, uploads: Mapping[str, Tensor]) -> Tensor:
        """What enters the mean for one client, given the change of its weights (float64)."""
        return change

    def direction(self, server: Vectors, sums: "Sums", setting: "Setting") -> Tensor:
        """The move that the server step is given (float64); `server` may be updated."""
        return sums.mean("change")

    def merge(self, server: Vectors, sums: "Sums", setting: "Setting") -> Merged:
        """The new weights and server state."""
        server = dict(server)
        direction = self.direction(server, sums, setting)
        parameters = setting.server_step.apply(sums.start.parameters, direction, server, sums)
        return Merged(sums.with_mean_buffers(parameters), server)

    def reported(self, server: Vectors, weights: Weights) -> Weights:
        """The model that is evaluated and exported."""
        return weights
