"""What the steps of a stack read besides their weights and batches.

These are tensors that each client has of its own, with a first dimension of clients, and those that are the
same for all clients.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from eunoe.core.flat_model import Vectors
from eunoe.methods.client_context import ClientContext


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
