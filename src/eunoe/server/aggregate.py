"""The running sums of a round's updates, in float64, added one by one in an order that never changes.

Sums are kept of n * (y - w) and of n, so that a thousand clients need the memory of a few; only methods
that ask for it keep every client's model, and only aggregations other than the mean every client's change.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from eunoe.core.compression import INDEX
from eunoe.core.flat_model import Vectors, Weights
from eunoe.errors import join_names
from eunoe.server.robust import Aggregation, Mean, near_copies

Weighting = Annotated[
    Literal["samples", "uniform"],
    Field(description="Weight clients by their number of samples, or all equally."),
]


class Upload(NamedTuple):
    """How the server combines something that every client sends besides its weights, its size and its range.

    An update with a value outside the range is dropped.
    """

    combine: Literal["samples", "uniform", "sum", "keep"]
    size: int
    # At most this many values are not 0, and only so many travel, with their indices; None: all do.
    entries: int | None = None
    # Another sparse upload of as many entries, whose indices are those of this one too.
    indices_of: str | None = None
    # The least and the largest value, the latter for each of what `per` says; None: any.
    lowest: float | None = None
    highest: float | None = None
    per: Literal["client", "sample", "step"] = "client"
    # Whether the largest value bounds the sum of all values instead of each.
    total: bool = False
    # Whether all values are whole numbers.
    whole: bool = False
    # How many times the usual norm of this upload its norm may be; None: any.
    factor: float | None = None

    def bytes_in(self, dtype: torch.dtype) -> int:
        """Return its size on the wire in numbers of this type."""
        if self.entries is None:
            return self.size * dtype.itemsize
        return self.entries * (dtype.itemsize + (INDEX.itemsize if self.indices_of is None else 0))


class Aggregate:
    """The sums of a round's updates that the server aggregates."""

    # Whether each update is clipped as a whole, so that its norm need not be checked.
    clips: ClassVar[bool] = False

    def __init__(
        self,
        start: Weights,
        weighting: Weighting = "samples",
        uploads: Mapping[str, Upload] | None = None,
        derived: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
        keep_models: bool = False,
        aggregation: Aggregation | None = None,
    ) -> None:
        """`derived` are further functions of each client's update whose means are needed."""
        self.aggregation = aggregation or Mean()
        self.start, self.weighting = start, weighting
        self.uploads, self.derived, self.keep_models = dict(uploads or {}), dict(derived or {}), keep_models
        self.clients: list[int] = []
        self.models: list[Weights] = []
        # Weighted sums of vectors by name, and the total weight in each.
        self._totals: Vectors = {}
        self._weights: dict[str, float] = {}
        self._kept: dict[str, list[Tensor]] = {}
        # For an aggregation that needs all changes: the rows of each vector, their weights, and the result.
        self._rows: dict[str, list[Tensor]] = {}
        self._row_weights: dict[str, list[float]] = {}
        self._aggregated: Vectors = {}
        # The largest counters, and how many clients moved each; server and clients may use others as indices.
        self._int_buffers, self._moves = start.int_buffers, torch.zeros_like(start.int_buffers)

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
        self._moves += weights.int_buffers != self.start.int_buffers
        for name, upload in self.uploads.items():
            self._combine(name, uploads[name], upload.combine, size)
        if self.keep_models:
            self.models.append(replace(weights, int_buffers=self.start.int_buffers))

    def take(self, clients: Iterable[int], sums: Vectors, weights: Mapping[str, float]) -> None:
        """Take in the sums over a round, and the total weight in each."""
        self.clients += clients
        self._totals |= sums
        self._weights |= weights

    def clip(self, vectors: Vectors) -> Vectors:
        """Return what a client may send of these vectors."""
        return vectors

    @property
    def count(self) -> int:
        """The number of clients that `mean` is over."""
        return len(self.clients)

    def mean(self, name: str) -> Tensor:
        """Return the mean of an upload, in float64; "change" and "float_buffers" are aggregated."""
        return self._robust(name) if name in self._rows else self._totals[name] / self._weights[name]

    def sum(self, name: str) -> Tensor:
        """Return the sum of an upload that is combined by "sum", in float64."""
        return self._robust(name) * self.count if name in self._rows else self._totals[name]

    def kept(self, name: str) -> Tensor:
        """Return all values of an upload that is combined by "keep", one row per client."""
        return torch.stack(self._kept[name])

    def warnings(self) -> list[str]:
        """Return what in the round's updates may have fooled the aggregation."""
        rows = self._rows.get("change", []) if self.aggregation.prefers_copies else []
        copies = [f"{self.clients[row]}" for row in near_copies(torch.stack(rows))] if rows else []
        problem = "sent nearly identical updates, which Krum prefers to honest ones: use geometric_median"
        return [f"clients {join_names(copies)} {problem}"] if copies else []

    def with_mean_buffers(self, parameters: Tensor) -> Weights:
        """New parameters, the clients' mean float buffers, and largest counters if most moved them."""
        before = self.start.float_buffers
        float_buffers = (before.double() + self.mean("float_buffers")).to(before.dtype)
        moved = 2 * self._moves > len(self.clients)
        int_buffers = torch.where(moved, self._int_buffers, self.start.int_buffers)
        return Weights(parameters, float_buffers, int_buffers)

    def _combine(self, name: str, value: Tensor, how: str, size: int) -> None:
        if how == "keep":
            self._kept.setdefault(name, []).append(value)
            return
        weight = float(size) if how == "samples" else 1.0
        if self.aggregation.needs_all and (how == "sum" or name in ("change", "float_buffers")):
            self._rows.setdefault(name, []).append(value.double())
            self._row_weights.setdefault(name, []).append(weight)
            return
        if name not in self._totals:
            self._totals[name] = torch.zeros(value.shape, dtype=torch.float64, device=value.device)
            self._weights[name] = 0.0
        self._totals[name].add_(value.double(), alpha=weight)
        self._weights[name] += weight

    def _robust(self, name: str) -> Tensor:
        if name not in self._aggregated:
            vectors = {key: torch.stack(rows) for key, rows in self._rows.items()}
            weights = torch.tensor(self._row_weights[name], dtype=torch.float64)
            self._aggregated[name] = self.aggregation.combine(list(vectors.values()), vectors[name], weights)
        return self._aggregated[name]
