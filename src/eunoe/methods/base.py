"""The base class of federated methods: what clients send and minimize, and how the server aggregates.

`Method` itself is federated averaging; a method overrides only what differs. It is a frozen object of its
hyper-parameters and keeps no state: the server's and each client's are named vectors that the engine and the
checkpoint carry. `loss`, `correct` and `step` see one client and must be pure tensor code without branches on
values, since an engine may run them on many clients at once under `torch.func.vmap`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor

from eunoe.config.options import Options
from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.tasks import EVERY, TaskName
from eunoe.errors import InputError
from eunoe.methods.context import Batch, ClientContext, RoundContext
from eunoe.server.aggregate import Aggregate, Upload, Weighting
from eunoe.server.optimizers import Cost


class Neutral(NamedTuple):
    """Options at which a method must equal FedAvg with the same weighting; verified by a test."""

    options: Mapping[str, Any] = {}
    # Number of rounds with equal results; None: all.
    rounds: int | None = None
    # Largest difference of any parameter; 0: bit for bit.
    tolerance: float = 0.0


@dataclass(frozen=True)
class Finished:
    """A client's uploads besides its weights, and its state for the next participation."""

    uploads: Vectors = field(default_factory=dict)
    state: Vectors = field(default_factory=dict)


@dataclass(frozen=True)
class ServerUpdate:
    """The server's weights and state after a round, its part of the round's record, and warnings."""

    weights: Weights
    server: Vectors
    record: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Method(Options):
    """Federated averaging: the mean of the models that the clients trained."""

    weighting: Weighting = "samples"

    cost: ClassVar[Cost] = Cost()
    # False for a method that computes the new weights itself, which needs the default server optimizer.
    takes_server_optimizer: ClassVar[bool] = True
    # False for a method that uses uploads in ways that no aggregation but the mean can protect.
    # A method with `keeps_models` takes no other aggregation either.
    takes_aggregation: ClassVar[bool] = True
    # Whether clients take part at all; without them `aggregate` only has the weights it started from.
    trains_clients: ClassVar[bool] = True
    # Whether aggregation needs every client's model, not only their mean.
    keeps_models: ClassVar[bool] = False
    # False if a client's state must agree with what the server sends, which cannot be of an earlier round.
    takes_stale: ClassVar[bool] = True
    # False if a part of the model cannot stay with clients: the method needs whole models.
    takes_private: ClassVar[bool] = True
    # Whether clients need the mean number of samples of all clients.
    needs_mean_size: ClassVar[bool] = False
    # False for a method without a global model: `own_model` gives each client's from its state.
    aggregates: ClassVar[bool] = True
    # Whether `begin` may change the weights that a client trains from.
    own_start: ClassVar[bool] = False
    # Whether it needs a model that computes `classifier(features(x))`.
    needs_features: ClassVar[bool] = False
    # Whether loss, correct and step may run under vmap.
    vectorizes: ClassVar[bool] = True
    # Whether `correct` is elementwise, so it may be called on a matrix with a row per client. A class that
    # overrides `correct` must set it again.
    elementwise: ClassVar[bool] = True
    # Supported tasks: all, unless it needs the probabilities or counts of classes.
    tasks: ClassVar[tuple[TaskName, ...]] = EVERY
    neutral: ClassVar[Neutral | None] = None

    def check(self, context: RoundContext) -> list[str]:
        """Raise InputError if the run lacks what the method needs; return warnings of what may go wrong."""
        if self.needs_features and not context.model.has_features:
            name = type(self).__name__.lower()
            raise InputError(f"{name} requires a model that computes `classifier(features(x))`")
        return []

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        """Return the server's state before the first round."""
        return {}

    def broadcast(self, server: Vectors, context: RoundContext) -> Vectors:
        """Return what every client receives besides the weights."""
        return {}

    def client_state(self, context: RoundContext) -> dict[str, int]:
        """Return names and sizes of the vectors that a client keeps between rounds, initially zeros."""
        return {}

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        """Return what a client sends besides its weights."""
        return {}

    def explained_norms(
        self, change: float, steps: int, shared: Mapping[str, Tensor], context: RoundContext
    ) -> dict[str, float]:
        """Return norms of uploads that are always accepted, given the norm of the client's change."""
        return {}

    def begin(self, client: ClientContext) -> None:
        """Called once before a client trains, to prepare frozen networks and caches."""

    def loss(self, client: ClientContext, batch: Batch) -> Tensor:
        """Return the loss that the client minimizes, per sample."""
        return client.criterion(client.forward(batch.x), batch.y)

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        """Return the gradient (weight decay included) to clip and apply; it may be changed in place."""
        return gradient

    def step(self, client: ClientContext, batch: Batch) -> None:
        """Take one step of local training."""
        client.descend(self.correct(client, client.gradient(lambda: self.loss(client, batch), batch)))

    def finish(self, client: ClientContext) -> Finished:
        """Called once after a client has trained."""
        return Finished()

    def contribution(self, change: Tensor, uploads: Mapping[str, Tensor]) -> Tensor:
        """Return what one client adds to the mean, given the change of its weights (float64)."""
        return change

    def pseudo_gradient(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> Tensor:
        """Return the update (float64) that the server optimizer follows; `server` may be changed."""
        return aggregate.mean("change")

    def empty_aggregate(self, start: Weights, context: RoundContext) -> Aggregate:
        """Return the sums to which the updates of a round are added."""
        uploads = self.uploads(context)
        if (privacy := context.privacy) is not None:
            return privacy.aggregate(start, uploads, context.participants, context.seed, context.round)
        derived = context.server_optimizer.derived()
        return Aggregate(start, self.weighting, uploads, derived, self.keeps_models, context.aggregation)

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        """Return the new weights and server state."""
        server = dict(server)
        pseudo_gradient = self.pseudo_gradient(server, aggregate, context)
        start, optimizer = aggregate.start.parameters, context.server_optimizer
        parameters = optimizer.apply(start, pseudo_gradient, server, aggregate)
        return ServerUpdate(aggregate.with_mean_buffers(parameters), server)

    def reported(self, server: Vectors, weights: Weights) -> Weights:
        """Return the model that is evaluated and exported."""
        return weights

    def own_model(self, state: Mapping[str, Tensor], which: Literal["last", "best"]) -> Weights:
        """Return a client's last model, or its best on validation; for methods without a global model."""
        raise NotImplementedError
