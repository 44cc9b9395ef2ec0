"""All that a step of a stack reads: nothing else may differ between two steps.

A step's tensors come in three groups: the weights and the batch, which are new in every step; what each
client has of its own, with a first dimension of clients; and what is the same for all clients. The numbers
that change by the round or the step are `StepNumbers`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

from eunoe.core.flat_model import Vectors
from eunoe.methods.client_context import Batch, ClientContext

T = TypeVar("T")


class StepNumbers(NamedTuple):
    """The numbers that change by the round or the step."""

    lr: float
    round: int
    steps_taken: int


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


# One client's step: its weights, its batch, the rest, and the numbers.
Step = Callable[[Tensor, Batch, Own, Common, StepNumbers], T]


@dataclass(frozen=True)
class Inputs:
    """All that a stack's steps read besides the weights and the batch."""

    own: Own
    common: Common

    def first(self, clients: int) -> "Inputs":
        """Return the inputs of the first clients only."""
        own: Own = tree_map(lambda value: value[:clients], self.own)
        return Inputs(own, self.common)

    @cached_property
    def flat(self) -> tuple[list[Tensor], tuple[TreeSpec, TreeSpec]]:
        """The tensors, each client's own first, and their structure."""
        (own, own_spec), (common, common_spec) = tree_flatten(self.own), tree_flatten(self.common)
        return [*own, *common], (own_spec, common_spec)

    @cached_property
    def structure(self) -> str:
        """The same for inputs of the same names."""
        return repr(self.flat[1])

    @cached_property
    def dimensions(self) -> tuple[int | None, ...]:
        """Which dimension of each tensor is that of the clients."""
        own, common = self.flat[1]
        return (0,) * own.num_leaves + (None,) * common.num_leaves


@dataclass(frozen=True)
class StackStep:
    """One step of a stack of clients as a function of tensors."""

    step: Step[Any]
    weights: Tensor
    batch: Batch
    inputs: Inputs
    numbers: StepNumbers

    @property
    def tensors(self) -> list[Tensor]:
        batch = self.batch
        mask = [] if batch.mask is None else [batch.mask]
        return [self.weights, batch.y, batch.index, *self.x[0], *mask, *self.inputs.flat[0]]

    @cached_property
    def x(self) -> tuple[list[Tensor], TreeSpec]:
        """The tensors of the batch's inputs and their structure."""
        return tree_flatten(self.batch.x)

    @property
    def dimensions(self) -> tuple[int | None, ...]:
        batched = 3 + len(self.x[0]) + (self.batch.mask is not None)
        return (0,) * batched + self.inputs.dimensions

    @property
    def structure(self) -> tuple[Any, str]:
        """The same for steps whose tensors have the same names."""
        return getattr(self.batch.x, "names", None), self.inputs.structure

    def run(self, numbers: StepNumbers, *tensors: Tensor) -> Any:
        """Apply the step to other numbers and tensors, vectorized over the clients."""
        fields, x_spec = len(self.x[0]), self.x[1]
        first = fields + (self.batch.mask is not None)

        def step_one(weights: Tensor, y: Tensor, index: Tensor, *rest: Tensor) -> Any:
            mask = rest[fields] if first > fields else None
            batch = Batch(tree_unflatten(rest[:fields], x_spec), y, index, mask)
            own_spec, common_spec = self.inputs.flat[1]
            end = first + own_spec.num_leaves
            own = tree_unflatten(rest[first:end], own_spec)
            return self.step(weights, batch, own, tree_unflatten(rest[end:], common_spec), numbers)

        return vmap(step_one, self.dimensions)(*tensors)

    def __call__(self) -> Any:
        return self.run(self.numbers, *self.tensors)


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
