"""Slices of updates, which actors add up on a cluster in the order of the clients.

Sums are over clients, each coordinate for itself. So a slice that one actor adds in the order of the clients
has the bits of the serial sum, which partial sums over some of the clients would not have. Cuts are at
multiples of 64 numbers, so that kernels treat each number as in the whole vector.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights
from eunoe.engines.ray.packing import Packed, pack, unpack
from eunoe.methods.base import Method
from eunoe.server.aggregate import Sums, weight_of
from eunoe.server.updates import Broadcast, Update

_ALIGNED = 64


def cut(vector: Tensor, part: int, parts: int) -> Tensor:
    """Return one of the parts of a vector; the last ones may be empty."""
    step = -(-vector.shape[-1] // (parts * _ALIGNED)) * _ALIGNED
    return vector[..., part * step : (part + 1) * step]


def slice_rows(rows: Sequence[Vectors], parts: int) -> list[Packed]:
    """Cut some clients' vectors, a row per client, into parts."""
    whole = {name: torch.stack([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    return [
        pack({name: cut(value, part, parts).contiguous() for name, value in whole.items()})
        for part in range(parts)
    ]


def summed_vectors(method: Method, update: Update, start: Weights) -> Vectors:
    """Return what is summed of an update: its weights, unless the method adds something else."""
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
        """Begin a round from a reference to its broadcast; `how` says how vectors are weighted."""
        import ray

        broadcast: Broadcast = unpack(ray.get(references[0]), copy=False)
        start, self._how, self._sums = broadcast.weights, how, Sums()
        vectors = {"parameters": start.parameters, "float_buffers": start.float_buffers}
        self._start = {name: cut(value, self._part, self._parts).double() for name, value in vectors.items()}

    def add(self, references: list[Any], rows: Sequence[tuple[int, int]]) -> None:
        """Add rows of a slice, each with its client's number of samples."""
        import ray

        slices: Vectors = unpack(ray.get(references[0]), copy=False)
        for row, size in rows:
            for name, values in slices.items():
                value = values[row].double()
                if name in self._start:
                    value = value - self._start[name]
                summed = "change" if name == "parameters" else name
                self._sums.add(summed, value, weight_of(self._how[summed], size))

    def result(self) -> Packed:
        """Return the sums of the slice and the total weights."""
        return pack((self._sums.totals, self._sums.weights))


def concatenate_sums(parts: Sequence[tuple[Vectors, dict[str, float]]]) -> tuple[Vectors, dict[str, float]]:
    """Return the sums of whole vectors from those of their parts in order."""
    first, weights = parts[0]
    return {name: torch.cat([totals[name] for totals, _ in parts]) for name in first}, weights
