"""One client of a stack as a method sees it inside `torch.func.vmap`, and what its steps read.

Inside, a method sees single vectors, as it does when a client trains alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import grad_and_value
from torch.utils._pytree import tree_map

from eunoe.core.fields import Input
from eunoe.core.flat_model import Vectors, Weights
from eunoe.engines.simulation import Simulation
from eunoe.errors import NotVectorizable
from eunoe.methods.context import Batch, ClientContext, Frozen, RoundContext


class Prepared(NamedTuple):
    """Client states and what a method's `begin` has prepared for the steps."""

    state: Vectors
    cache: Vectors
    # Padded to the client with most samples.
    rows: Vectors
    # Of each frozen network its outputs on the client's data or, if those change, its weights.
    outputs: Vectors
    weights: dict[str, Vectors]


class Own(NamedTuple):
    """Tensors that differ between clients; their first dimension is the client."""

    id: Tensor
    size: Tensor
    steps: Tensor
    counts: Tensor
    terms: Tensor
    # The model's buffers, if it has any.
    buffers: Vectors
    # Empty if all clients have that of the training options.
    weight_decay: tuple[Tensor, ...]
    # What clients of several runs have of their own: what they received, and the options that differ.
    start: Vectors
    shared: Vectors
    options: Vectors
    prepared: Prepared
    # The optimizer's moments, for a method with its own step.
    moments: Vectors


class Common(NamedTuple):
    """Tensors shared by all clients of a stack."""

    start: Vectors
    shared: Vectors
    prepared: Prepared


@dataclass(frozen=True)
class Inputs:
    """All that a stack's steps read besides the weights and the batch."""

    own: Own
    common: Common

    def first(self, clients: int) -> "Inputs":
        """Return the inputs of the first clients only."""
        own: Own = tree_map(lambda value: value[:clients], self.own)
        return Inputs(own, self.common)


def separate(
    different: Vectors, same: Vectors, vectors: Sequence[Mapping[str, Tensor]], length: int = 0
) -> None:
    """Add each vector to `same` if it is one tensor for all clients, otherwise stacked to `different`.

    With a length, rows are padded to it.
    """
    for name in vectors[0]:
        values = [named[name] for named in vectors]
        if len(values) > 1 and all(value is values[0] for value in values):
            same[name] = values[0]
        elif length:
            different[name] = values[0].new_zeros(len(values), length, *values[0].shape[1:])
            for row, value in zip(different[name], values, strict=True):
                row[: len(value)] = value
        else:
            different[name] = torch.stack(values)


def collect_prepared(clients: Sequence[ClientContext], longest: int) -> tuple[Prepared, Prepared]:
    """Return what the clients prepared: what differs between them, and what is the same tensor for all."""
    own, common = (Prepared({}, {}, {}, {}, {}) for _ in range(2))
    if not clients:
        return own, common
    separate(own.state, common.state, [client.state for client in clients])
    separate(own.cache, common.cache, [client.cache for client in clients])
    separate(own.rows, common.rows, [client.rows for client in clients], longest)
    for name in clients[0].networks:
        networks = [client.networks[name] for client in clients]
        outputs = [{} if network.outputs is None else {name: network.outputs} for network in networks]
        separate(own.outputs, common.outputs, outputs, longest)
        if not outputs[0]:
            own.weights[name], common.weights[name] = {}, {}
            vectors = [network.weights.vectors() for network in networks]
            separate(own.weights[name], common.weights[name], vectors)
    return own, common


@dataclass
class StepContext(ClientContext):
    """A client inside vmap: its weights are one row of the stack's, its losses are averaged by mask."""

    at: Tensor = field(default_factory=lambda: torch.empty(0))
    # The model's buffers, if it has any.
    float_buffers: Tensor | None = None
    int_buffers: Tensor | None = None

    @property
    def weights(self) -> Tensor:
        return self.at

    def forward(self, x: Input, at: Tensor | None = None) -> Tensor:
        self.forwards += len(x)
        return self.model.forward_at(self.at if at is None else at, x, self.float_buffers, self.int_buffers)

    def features(self, x: Input, at: Tensor | None = None) -> tuple[Tensor, Tensor]:
        self.forwards += len(x)
        return self.model.features_at(self.at if at is None else at, x, self.float_buffers, self.int_buffers)

    def gradient(self, loss: Callable[[], Tensor], batch: Batch) -> Tensor:
        here = self.at

        def loss_at(point: Tensor) -> Tensor:
            self.at = point
            return loss()

        gradient = self.gradient_at(here, loss_at, batch)
        self.at = here
        return self.decayed(gradient)

    def decayed(self, gradient: Tensor) -> Tensor:
        # A tensor if it differs between clients.
        decays = isinstance(self.weight_decay, Tensor) or self.weight_decay
        if decays and self.training.optimizer != "adamw":
            return gradient + self.weight_decay * self.at
        return gradient

    def gradient_at(self, at: Tensor, loss: Callable[[Tensor], Tensor], batch: Batch) -> Tensor:
        self.backwards += len(batch.y)
        outside = self.float_buffers, self.int_buffers

        # Buffers are arguments, since only arguments may be written to inside vmap.
        def mean_at(point: Tensor, float_buffers: Tensor | None, int_buffers: Tensor | None) -> Tensor:
            self.float_buffers, self.int_buffers = float_buffers, int_buffers
            return masked_mean(loss(point), batch.mask)

        gradient: Tensor
        gradient, self.last_loss = grad_and_value(mean_at)(at, *outside)
        self.float_buffers, self.int_buffers = outside
        return gradient

    @property
    def known_loss(self) -> Tensor:
        """The last step's mean loss; NaN if the step has none."""
        return self.weights.new_full((), float("nan")) if self.last_loss is None else self.last_loss


class NoMoments(dict[str, Tensor]):
    """The optimizer's moments, which the engine keeps and the method cannot read."""

    def _refuse(self, *_: object) -> Any:
        raise NotVectorizable("its loss or correction reads the optimizer's moments")

    __getitem__ = __setitem__ = __contains__ = __iter__ = __len__ = get = _refuse


def masked_mean(losses: Tensor, mask: Tensor | None) -> Tensor:
    """Return the mean over the real samples of a batch."""
    return losses.mean() if mask is None else torch.where(mask, losses, 0).sum() / mask.sum()


def make_step_context(
    simulation: Simulation,
    context: RoundContext,
    networks: Mapping[str, bool],
    weights: Tensor,
    own: Own,
    common: Common,
    steps_taken: int,
) -> StepContext:
    """Return a client inside vmap from what its step reads; `networks` compute features or logits."""
    different, same = own.prepared, common.prepared
    empty = torch.empty(0)
    unknown = Weights(empty, empty, empty).vectors()

    def network(name: str, features: bool) -> Frozen:
        outputs = {**different.outputs, **same.outputs}.get(name)
        vectors = {**unknown, **different.weights.get(name, {}), **same.weights.get(name, {})}
        return Frozen(Weights.from_vectors(vectors), features, outputs)

    # Tensors where a client that trains alone has Python numbers.
    of_client: Any = {"id": own.id, "size": own.size, "steps": own.steps}
    decay: Any = own.weight_decay[0] if own.weight_decay else context.training.weight_decay
    options: Mapping[str, Any] = own.options
    lr, round = options.get("lr", context.lr), options.get("round", context.round)
    facts = context.data
    if "mean_size" in options:
        facts = replace(facts, mean_size=options["mean_size"])
    return StepContext(
        model=simulation.model,
        context=replace(context, lr=lr, round=round, data=facts),
        counts=own.counts,
        loss=simulation.loss,
        terms=own.terms,
        start=Weights.from_vectors({**own.start, **common.start}),
        shared={**own.shared, **common.shared},
        state={**different.state, **same.state},
        lr=lr,
        steps_taken=steps_taken,
        weight_decay=decay,
        data=_refuse_data,
        validation=_refuse_data,
        cache={**different.cache, **same.cache},
        rows={**different.rows, **same.rows},
        networks={name: network(name, features) for name, features in networks.items()},
        moments=own.moments,
        at=weights,
        float_buffers=own.buffers.get("float_buffers"),
        int_buffers=own.buffers.get("int_buffers"),
        **of_client,
    )


def _refuse_data(*_: Tensor) -> Any:
    raise NotVectorizable("its steps read more of the client's data than their batch")
