"""Updates added up on a cluster: each of several actors adds a slice of all updates, in the clients' order.

Sums are over clients, each coordinate for itself. So a slice that one actor adds in the order of the clients
has the bits of the serial sum, which partial sums over some of the clients would not have. Cuts are at
multiples of 64 numbers, so that no kernel treats a number otherwise than it would in the whole vector.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights
from eunoe.engines.client import Broadcast, Update
from eunoe.engines.ray.packing import Packed, packed, unpacked
from eunoe.methods.base import Method
from eunoe.server.aggregate import Sums, weight_of

_ALIGNED = 64


def cut(vector: Tensor, part: int, parts: int) -> Tensor:
    """One of the parts of a vector; the last ones may be empty."""
    step = -(-vector.shape[-1] // (parts * _ALIGNED)) * _ALIGNED
    return vector[..., part * step : (part + 1) * step]


def sliced(rows: Sequence[Vectors], parts: int) -> list[Packed]:
    """The parts of some clients' vectors, a row per client."""
    whole = {name: torch.stack([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    return [
        packed({name: cut(value, part, parts).contiguous() for name, value in whole.items()})
        for part in range(parts)
    ]


def sent(method: Method, update: Update, start: Weights) -> Vectors:
    """What is summed of an update: its weights as they are, unless the method adds something else."""
    vectors = {"float_buffers": update.weights.float_buffers, **update.uploads}
    if type(method).contribution is Method.contribution:
        return {"parameters": update.weights.parameters, **vectors}
    change = update.weights.parameters.double() - start.parameters.double()
    return {"change": method.contribution(change, update.uploads), **vectors}


class Summer:
    """An actor that adds up one slice of a round's updates."""

    def __init__(self, part: int, parts: int) -> None:
        torch.set_num_threads(1)
        self._part, self._parts = part, parts

    def begin(self, references: list[Any], how: Mapping[str, str]) -> None:
        """Begin a round, of whose broadcast there is a reference; `how` says how vectors are weighted."""
        import ray

        broadcast: Broadcast = unpacked(ray.get(references[0]), copy=False)
        start, self._how, self._sums = broadcast.weights, how, Sums()
        vectors = {"parameters": start.parameters, "float_buffers": start.float_buffers}
        self._start = {name: cut(value, self._part, self._parts).double() for name, value in vectors.items()}

    def add(self, references: list[Any], rows: Sequence[tuple[int, int]]) -> None:
        """Add rows of a slice, each with its client's number of samples."""
        import ray

        found: Vectors = unpacked(ray.get(references[0]), copy=False)
        for row, size in rows:
            for name, values in found.items():
                value = values[row].double()
                if name in self._start:
                    value = value - self._start[name]
                summed = "change" if name == "parameters" else name
                self._sums.add(summed, value, weight_of(self._how[summed], size))

    def result(self) -> Packed:
        """The sums of the slice and the total weights."""
        return packed((self._sums.totals, self._sums.weights))


def joined_sums(parts: Sequence[tuple[Vectors, dict[str, float]]]) -> tuple[Vectors, dict[str, float]]:
    """The sums of whole vectors, from those of their parts in order."""
    first, weights = parts[0]
    return {name: torch.cat([totals[name] for totals, _ in parts]) for name in first}, weights
