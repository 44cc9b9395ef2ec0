"""The running sums of a round's updates, in float64, added one by one in an order that never changes.

Sums are kept of n * (y - w) and of n, so that a thousand clients need the memory of a few; only methods
that ask for it keep every client's model.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights

Weighting = Literal["samples", "uniform"]


class Upload(NamedTuple):
    """How the server combines something that every client sends besides its weights, and its size."""

    combine: Literal["samples", "uniform", "sum", "keep"]
    size: int
    # Its size on the wire, if that is not `size` numbers of the model's dtype.
    bytes: int | None = None


class Aggregate:
    """The sums of a round's updates that the server merges."""

    def __init__(
        self,
        start: Weights,
        weighting: Weighting = "samples",
        uploads: Mapping[str, Upload] | None = None,
        derived: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
        keep_models: bool = False,
    ) -> None:
        """`derived` are further functions of each client's update whose means are needed."""
        self.start, self.weighting = start, weighting
        self.uploads, self.derived, self.keep_models = dict(uploads or {}), dict(derived or {}), keep_models
        self.clients: list[int] = []
        self.models: list[Weights] = []
        self._sums: Vectors = {}
        self._weights: dict[str, float] = {}
        self._kept: dict[str, list[Tensor]] = {}
        self._int_buffers = start.int_buffers

    def add(
        self, client: int, size: int, weights: Weights, change: Tensor, uploads: Mapping[str, Tensor]
    ) -> None:
        """Take in a client's model, what it contributes to the mean change (float64), and its uploads."""
        self.clients.append(client)
        self._combine("change", change, self.weighting, size)
        for name, derive in self.derived.items():
            self._combine(name, derive(change), self.weighting, size)
        moved = weights.float_buffers.double() - self.start.float_buffers.double()
        self._combine("float_buffers", moved, "samples", size)
        self._int_buffers = torch.maximum(self._int_buffers, weights.int_buffers)
        for name, upload in self.uploads.items():
            self._combine(name, uploads[name], upload.combine, size)
        if self.keep_models:
            self.models.append(weights)

    def mean(self, name: str) -> Tensor:
        """The mean of an upload (or of "change"), in float64."""
        return self._sums[name] / self._weights[name]

    def sum(self, name: str) -> Tensor:
        """The sum of an upload that is combined by "sum", in float64."""
        return self._sums[name]

    def kept(self, name: str) -> Tensor:
        """All values of an upload that is combined by "keep", one row per client."""
        return torch.stack(self._kept[name])

    def with_mean_buffers(self, parameters: Tensor) -> Weights:
        """New parameters with the mean of the clients' float buffers and the largest of their counters."""
        before = self.start.float_buffers
        float_buffers = (before.double() + self.mean("float_buffers")).to(before.dtype)
        return Weights(parameters, float_buffers, self._int_buffers.clone())

    def _combine(self, name: str, value: Tensor, how: str, size: int) -> None:
        if how == "keep":
            self._kept.setdefault(name, []).append(value)
            return
        weight = float(size) if how == "samples" else 1.0
        if name not in self._sums:
            self._sums[name] = torch.zeros(value.shape, dtype=torch.float64, device=value.device)
            self._weights[name] = 0.0
        self._sums[name].add_(value.double(), alpha=weight)
        self._weights[name] += weight
