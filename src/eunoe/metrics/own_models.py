"""Evaluates each client's samples by that client's own model, for methods without a global one."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from eunoe.core.flat_model import Weights
from eunoe.errors import InputError
from eunoe.metrics.base import Evaluator, Predictions, Rows


class OwnModels:
    """An evaluator that takes the model of the client that owns a sample in place of the one passed."""

    def __init__(self, evaluator: Evaluator, own: Callable[[int], Weights | None]) -> None:
        """`own` gives a client's model, or None if it has not trained yet."""
        self.evaluator, self.own = evaluator, own

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        """The predictions for samples of clients; a client that has not trained yet has the model passed."""
        if where.owners is None:
            raise InputError(
                "a metric evaluates samples that are no client's own, and this method has no global model: "
                "leave it out of metrics"
            )
        order = np.argsort(where.owners, kind="stable")
        cuts = np.flatnonzero(np.diff(where.owners[order])) + 1
        parts = [replace(where, rows=where.rows[at], owners=where.owners[at]) for at in np.split(order, cuts)]
        found = []
        for start in models:
            each = [self._predictions(start, part) for part in parts]
            found.append(_reordered(each, np.argsort(order)))
        return found

    def _predictions(self, start: Weights, part: Rows) -> Predictions:
        assert part.owners is not None
        own = self.own(int(part.owners[0]))
        (predictions,) = self.evaluator.evaluate([start if own is None else own], part)
        return predictions


def _reordered(parts: Sequence[Predictions], order: np.ndarray) -> Predictions:
    """The predictions of all parts, in the order of the samples that were asked for."""
    logits = [part.logits for part in parts if part.logits is not None]
    return Predictions(
        np.concatenate([part.predicted for part in parts])[order],
        np.concatenate([part.losses for part in parts])[order],
        np.sum([part.probability for part in parts], axis=0),
        np.concatenate(logits)[order] if logits else None,
    )
