"""Evaluates the model of a round and computes its metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eunoe.core.flat_model import Weights
from eunoe.data.federation import Federation, Part
from eunoe.metrics.base import Evaluator, Metric, Place, Rows, Snapshot
from eunoe.metrics.named import BY_PLACE, measures


class RoundMetrics:
    """Evaluates the model of a round on the test set and on the clients' validation and test parts."""

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        federation: Federation,
        seed: int,
        *,
        validation: bool = True,
        test: bool = True,
        own_models: bool = False,
    ) -> None:
        """With `own_models` each client has a model of its own: a sample of no client is not evaluated."""
        self.federation, self.seed = federation, seed
        self.metrics = {name: metric for name, metric in metrics.items() if measures(metric, federation)}
        self.places: dict[str, Rows] = {}
        parts: tuple[tuple[str, Part, bool], ...] = (
            ("validation", "validation", validation),
            ("client_test", "test", test),
        )
        for name, part, wanted in parts:
            rows, owners = federation.pooled(part)
            if wanted and len(rows):
                self.places[name] = Rows("clients", rows, owners)
        self.test_owners = federation.test_owners if test else None
        if own_models:
            whose, self.test_owners = self.test_owners, None
            if whose is not None and (whose >= 0).any():
                (rows,) = np.nonzero(whose >= 0)
                self.places["test"] = Rows("test", rows, whose[rows])
        elif test and len(federation.data.test):
            self.places["test"] = Rows("test", np.arange(len(federation.data.test)))

    def __call__(
        self,
        evaluator: Evaluator,
        round: int,
        weights: Weights,
        elsewhere: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """The model's part of a round's record; `elsewhere` are numbers on data of other machines."""
        logits = any("logits" in metric.needs for metric in self.metrics.values())
        (places,) = evaluate_at(evaluator, self.federation, [weights], self.places, logits)
        if self.test_owners is not None:
            places["test"] = replace(places["test"], owners=self.test_owners)
        own = {}
        for name, metric in self.metrics.items():
            if rows := metric.rows(self.federation, (), self.seed):
                (own[name],) = evaluate_at(
                    evaluator, self.federation, [weights], rows, "logits" in metric.needs
                )
        shown = Snapshot(round, "merged", places, weights.parameters, elsewhere=elsewhere or {})
        return record_of(self.metrics, shown, own)


def evaluate_at(
    evaluator: Evaluator,
    federation: Federation,
    models: Sequence[Weights],
    where: Mapping[str, Rows],
    logits: bool = False,
) -> list[dict[str, Place]]:
    """The predictions of each model at each place."""
    found: list[dict[str, Place]] = [{} for _ in models]
    for name, rows in where.items():
        labels = federation.samples(rows.source).y.numpy()[rows.rows]
        predicted = evaluator.evaluate(models, replace(rows, logits=logits))
        for places, predictions in zip(found, predicted, strict=True):
            places[name] = Place(predictions, labels, federation.classes, rows.owners, federation.task)
    return found


def record_of(
    metrics: Mapping[str, Metric], shown: Snapshot, own: Mapping[str, Mapping[str, Place]] | None = None
) -> dict[str, Any]:
    """The metrics of a model: the standard numbers by place, then the sections of other metrics.

    `own` has the places that are a metric's own, by its name.
    """
    by_place: dict[str, Any] = {name: {} for name in shown.places}
    sections: dict[str, Any] = {}
    for name, metric in metrics.items():
        metric.reset()
        metric.update(replace(shown, places={**shown.places, **(own or {}).get(name, {})}))
        found = metric.compute()
        if name in BY_PLACE:
            for place, value in found.items():
                by_place[place][name] = value
        elif found:
            sections[name] = dict(found)
    return {**by_place, **shown.elsewhere, **sections}
