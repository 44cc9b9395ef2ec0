"""Adding up the updates of a round in float64, one by one, in an order that never changes.

Sums are kept of n * (y - w) and of n, so that a thousand clients need the memory of a few and a
dropped client needs no second pass; only methods that ask for it keep every client's model.
"""

import torch
from torch import Tensor

from eunoe.core.flat_model import Weights
from eunoe.methods.base import Method
from eunoe.methods.context import Setting
from eunoe.training.client import Update


class Sums:
    """What the server knows of a round's updates when it merges them."""

    def __init__(self, method: Method, start: Weights, setting: Setting) -> None:
        self.start, self.method = start, method
        self.clients: list[int] = []
        self.models: list[Weights] = []
        self._uploads = method.uploads(setting)
        self._derived = setting.server_step.derived()
        self._start = start.parameters.double()
        self._sums: dict[str, Tensor] = {}
        self._weights: dict[str, float] = {}
        self._kept: dict[str, list[Tensor]] = {}
        self._integers = start.integers

    def problem(self, update: Update) -> str | None:
        """Why an update cannot be used, or None."""
        if update.skipped is not None:
            return update.skipped
        weights, start = update.weights, self.start
        if weights.parameters.shape != start.parameters.shape or weights.floats.shape != start.floats.shape:
            return f"its update has {weights.parameters.numel()} parameters, not {start.parameters.numel()}"
        for name, upload in self._uploads.items():
            if name not in update.uploads or update.uploads[name].shape != (upload.size,):
                return f"its upload {name!r} is missing or has the wrong shape"
        for value in (weights.parameters, weights.floats, *update.uploads.values()):
            if not bool(torch.isfinite(value).all()):
                return "its update is not finite"
        return None

    def add(self, update: Update) -> float:
        """Take an update in; give the norm of its change."""
        self.clients.append(update.client)
        change = update.weights.parameters.double() - self._start
        norm = float(torch.linalg.vector_norm(change))
        change = self.method.contribution(change, update.uploads)
        self._combine("change", change, self.method.weighting, update)
        for name, derive in self._derived.items():
            self._combine(name, derive(change), self.method.weighting, update)
        self._combine(
            "floats", update.weights.floats.double() - self.start.floats.double(), "samples", update
        )
        self._integers = torch.maximum(self._integers, update.weights.integers)
        for name, upload in self._uploads.items():
            self._combine(name, update.uploads[name], upload.combine, update)
        if self.method.keeps_models:
            self.models.append(update.weights)
        return norm

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
        floats = (self.start.floats.double() + self.mean("floats")).to(self.start.floats.dtype)
        return Weights(parameters, floats, self._integers.clone())

    def _combine(self, name: str, value: Tensor, how: str, update: Update) -> None:
        if how == "keep":
            self._kept.setdefault(name, []).append(value)
            return
        weight = float(update.size) if how == "samples" else 1.0
        if name not in self._sums:
            self._sums[name] = torch.zeros(value.shape, dtype=torch.float64, device=value.device)
            self._weights[name] = 0.0
        self._sums[name].add_(value.double(), alpha=weight)
        self._weights[name] += weight
