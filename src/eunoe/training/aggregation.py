"""Aggregation of a round: each update is validated, then added to the sums that the server merges."""

import torch

from eunoe.core.flat_model import Weights
from eunoe.methods.base import Method
from eunoe.methods.context import RoundContext
from eunoe.server.aggregate import Aggregate
from eunoe.training.client import Update


class Aggregator:
    """Checks the updates of a round and adds those that can be used to an aggregate."""

    def __init__(self, method: Method, start: Weights, context: RoundContext) -> None:
        self.method, self.start = method, start
        self.aggregate = Aggregate(
            start,
            method.weighting,
            method.uploads(context),
            context.server_optimizer.derived(),
            method.keeps_models,
        )
        self._start = start.parameters.double()

    def problem(self, update: Update) -> str | None:
        """Why an update cannot be used, or None."""
        if update.skipped is not None:
            return update.skipped
        weights, start = update.weights, self.start
        if (
            weights.parameters.shape != start.parameters.shape
            or weights.float_buffers.shape != start.float_buffers.shape
        ):
            return f"its update has {weights.parameters.numel()} parameters, not {start.parameters.numel()}"
        for name, upload in self.aggregate.uploads.items():
            if name not in update.uploads or update.uploads[name].shape != (upload.size,):
                return f"its upload {name!r} is missing or has the wrong shape"
        for value in (weights.parameters, weights.float_buffers, *update.uploads.values()):
            if not bool(torch.isfinite(value).all()):
                return "its update is not finite"
        return None

    def add(self, update: Update) -> float:
        """Add an update; returns the norm of its change."""
        change = update.weights.parameters.double() - self._start
        norm = float(torch.linalg.vector_norm(change))
        change = self.method.contribution(change, update.uploads)
        self.aggregate.add(update.client, update.size, update.weights, change, update.uploads)
        return norm
