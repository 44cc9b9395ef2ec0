"""Evaluates the model of a round and computes its metrics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eunoe.core.flat_model import Weights
from eunoe.data.federation import Federation, Part
from eunoe.errors import InputError
from eunoe.metrics.base import Evaluation, Evaluator, Metric, Predictions, Rows, Snapshot
from eunoe.metrics.named import can_measure
from eunoe.store.schema import BY_SET


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
        """With `own_models` each client has a model of its own, and only clients' samples are evaluated."""
        self.federation, self.seed = federation, seed
        self.metrics = {name: metric for name, metric in metrics.items() if can_measure(metric, federation)}
        self.sets: dict[str, Rows] = {}
        parts: tuple[tuple[str, Part, bool], ...] = (
            ("validation", "validation", validation),
            ("client_test", "test", test),
        )
        for name, part, wanted in parts:
            rows, owners = federation.pooled(part)
            if wanted and len(rows):
                self.sets[name] = Rows("clients", rows, owners)
        self.test_owners = federation.test_owners if test else None
        if own_models:
            owners_of_test, self.test_owners = self.test_owners, None
            if owners_of_test is not None and (owners_of_test >= 0).any():
                (rows,) = np.nonzero(owners_of_test >= 0)
                self.sets["test"] = Rows("test", rows, owners_of_test[rows])
        elif test and len(federation.data.test):
            self.sets["test"] = Rows("test", np.arange(len(federation.data.test)))

    def __call__(
        self,
        evaluator: Evaluator,
        round: int,
        weights: Weights,
        elsewhere: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Return the model's part of a round's record; `elsewhere` are numbers from other machines."""
        logits = any("logits" in metric.needs for metric in self.metrics.values())
        (evaluations,) = evaluate_on(evaluator, self.federation, [weights], self.sets, logits)
        if self.test_owners is not None:
            evaluations["test"] = replace(evaluations["test"], owners=self.test_owners)
        own = {}
        for name, metric in self.metrics.items():
            if sets := metric.rows(self.federation, (), self.seed):
                needs_logits = "logits" in metric.needs
                (own[name],) = evaluate_on(evaluator, self.federation, [weights], sets, needs_logits)
        model = Snapshot(round, "global", evaluations, weights.parameters, elsewhere=elsewhere or {})
        return compute_metrics(self.metrics, model, own)


def evaluate_on(
    evaluator: Evaluator,
    federation: Federation,
    models: Sequence[Weights],
    sets: Mapping[str, Rows],
    logits: bool = False,
) -> list[dict[str, Evaluation]]:
    """Return the evaluation of each model on each set of samples."""
    evaluations: list[dict[str, Evaluation]] = [{} for _ in models]
    for name, rows in sets.items():
        labels = federation.samples(rows.source).y.numpy()[rows.rows]
        predictions = evaluator.evaluate(models, replace(rows, logits=logits))
        for each, predicted in zip(evaluations, predictions, strict=True):
            each[name] = Evaluation(predicted, labels, federation.classes, rows.owners, federation.task)
    return evaluations


def compute_metrics(
    metrics: Mapping[str, Metric], model: Snapshot, own: Mapping[str, Mapping[str, Evaluation]] | None = None
) -> dict[str, Any]:
    """Return a model's metrics: the standard ones by set of samples, then a section for each other metric.

    `own` has further evaluations that a metric asked for, by its name.
    """
    by_set: dict[str, Any] = {name: {} for name in model.evaluations}
    sections: dict[str, Any] = {}
    for name, metric in metrics.items():
        metric.reset()
        metric.update(replace(model, evaluations={**model.evaluations, **(own or {}).get(name, {})}))
        values = metric.compute()
        if name in BY_SET:
            for where, value in values.items():
                by_set[where][name] = value
        elif values:
            sections[name] = dict(values)
    return {**by_set, **model.elsewhere, **sections}


class OwnModels:
    """An evaluator that uses each client's own model on its samples, for methods without a global model."""

    def __init__(self, evaluator: Evaluator, own: Callable[[int], Weights | None]) -> None:
        """`own` returns a client's model, or None if it has not trained yet."""
        self.evaluator, self.own = evaluator, own

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        """Return predictions on clients' samples; a client without a model of its own uses the one passed."""
        if where.owners is None:
            raise InputError(
                "a metric evaluates samples that no client owns, but this method has no global model: "
                "remove it from metrics"
            )
        order = np.argsort(where.owners, kind="stable")
        cuts = np.flatnonzero(np.diff(where.owners[order])) + 1
        parts = [replace(where, rows=where.rows[at], owners=where.owners[at]) for at in np.split(order, cuts)]
        return [
            _concatenate([self._predict(start, part) for part in parts], np.argsort(order))
            for start in models
        ]

    def _predict(self, start: Weights, part: Rows) -> Predictions:
        assert part.owners is not None
        own = self.own(int(part.owners[0]))
        (predictions,) = self.evaluator.evaluate([start if own is None else own], part)
        return predictions


def _concatenate(parts: Sequence[Predictions], order: np.ndarray) -> Predictions:
    """Join the predictions of parts and reorder the samples."""
    logits = [part.logits for part in parts if part.logits is not None]
    return Predictions(
        np.concatenate([part.predicted for part in parts])[order],
        np.concatenate([part.losses for part in parts])[order],
        np.sum([part.probability for part in parts], axis=0),
        np.concatenate(logits)[order] if logits else None,
    )
