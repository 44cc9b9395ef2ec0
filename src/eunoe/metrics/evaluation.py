"""Evaluates the model of a round and computes its metrics and the score that picks the best model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from eunoe.config import registry
from eunoe.config.options import ScoreName
from eunoe.core.flat_model import Weights
from eunoe.core.tasks import EVERY, LABELED, Task, check_task
from eunoe.data.federation import Federation, Part
from eunoe.errors import InputError
from eunoe.metrics.base import Evaluation, EvaluationMetric, Evaluator, Integers, Metric, Need, Rows, Snapshot
from eunoe.metrics.forgetting import spread
from eunoe.metrics.named import can_measure
from eunoe.metrics.retention import Retention
from eunoe.metrics.standard import to_number
from eunoe.store.schema import BY_SET

# Metrics of which every class with a sample counts.
_BY_CLASS = ("balanced_accuracy", "macro_f1", "auroc")


class Score(EvaluationMetric):
    """The score on each set of samples, and whether it is the best so far on validation data."""

    tasks = EVERY

    by: ScoreName | None = Field(None, description="Name of the score; by default the task's main metric.")
    _best: float = PrivateAttr(-np.inf)

    @property
    def needs(self) -> tuple[Need, ...]:  # type: ignore[override]
        """The logits, for AUROC."""
        return ("logits",) if self.by == "auroc" else ()

    def measure(self, evaluation: Evaluation) -> float | None:
        if self.by == "worst_class":
            known = evaluation.per_class[~np.isnan(evaluation.per_class)]
            return float(known.min()) if len(known) else None
        if self.by == "worst_client":
            return None if evaluation.by_owner is None else spread(evaluation.by_owner).worst_tenth
        options = {"min_support": 1} if self.by in _BY_CLASS else {}
        metric = registry.build("metric", self.by or evaluation.task.metric, options)
        return to_number(metric.measure(evaluation))

    def improves(self, evaluations: Mapping[str, Evaluation]) -> bool:
        """Return whether a model is better on validation data than all before it."""
        score = self.measure(evaluations["validation"]) if "validation" in evaluations else None
        return score is not None and score > self._best

    def update(self, model: Snapshot) -> None:
        super().update(model)
        self._best = max(self._values.get("validation", -np.inf), self._best)

    def state(self) -> dict[str, Any]:
        return {"best": self._best} if np.isfinite(self._best) else {}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._best = state["best"]


def make_score(by: ScoreName | None, task: Task) -> Score:
    """Return the score of a name; raise an InputError if it does not support the task."""
    if by in _BY_CLASS:
        check_task(registry.build("metric", by, {}), task, "metric", by)
    elif by == "worst_class" and task.name not in LABELED:
        raise InputError(f"metric 'worst_class' supports classification and multilabel, not {task.name}")
    return Score(by=by)


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
        judging: bool = False,
        own_models: bool = False,
    ) -> None:
        """With `own_models` each client has its own model, and only samples of clients are evaluated.

        With `judging`, half of the validation samples form a separate set; all sets but validation are
        evaluated on demand.
        """
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
        self.on_demand: dict[str, Rows] = {}
        if judging and "validation" in self.sets:
            self.on_demand = {name: rows for name, rows in self.sets.items() if name != "validation"}
            both = self.sets["validation"]
            kept = mask_judging_rows(both.rows)
            if kept.all() or not kept.any():
                raise InputError("evaluation.judging needs more validation samples: raise split.validation")
            self.sets = {"validation": _select(both, ~kept)}
            self.on_demand["judging"] = _select(both, kept)

    def begin(self, evaluator: Evaluator, weights: Weights) -> bool:
        """Measure the start model on the reference sets and return True, unless it was measured."""
        retention = self.metrics.get("retention")
        if not isinstance(retention, Retention) or retention.begun:
            return False
        sets = retention.rows(self.federation, (), self.seed)
        retention.begin(evaluate_on(evaluator, self.federation, [weights], sets)[0])
        return True

    def __call__(
        self,
        evaluator: Evaluator,
        round: int,
        weights: Weights,
        elsewhere: Mapping[str, Mapping[str, Any]] | None = None,
        final: bool = True,
    ) -> dict[str, Any]:
        """Return the model's part of a round's record; `elsewhere` are numbers from other machines.

        With `final`, or if the model is the best so far, the sets on demand are evaluated too.
        """
        logits = any("logits" in metric.needs for metric in self.metrics.values())
        (evaluations,) = evaluate_on(evaluator, self.federation, [weights], self.sets, logits)
        score = self.metrics.get("score")
        # The best of the models that retain enough need not be the best of all.
        final = final or bool(self.federation.references)
        if isinstance(score, Score) and self.on_demand and (final or score.improves(evaluations)):
            evaluations |= evaluate_on(evaluator, self.federation, [weights], self.on_demand, logits)[0]
        if self.test_owners is not None and "test" in evaluations:
            evaluations["test"] = replace(evaluations["test"], owners=self.test_owners)
        own = {}
        for name, metric in self.metrics.items():
            if sets := metric.rows(self.federation, (), self.seed):
                needs_logits = "logits" in metric.needs
                (own[name],) = evaluate_on(evaluator, self.federation, [weights], sets, needs_logits)
        model = Snapshot(round, "global", evaluations, weights.parameters, elsewhere=elsewhere or {})
        return compute_metrics(self.metrics, model, own)


def mask_judging_rows(rows: Integers) -> NDArray[np.bool_]:
    """Return which rows are kept for judging: the same half of all rows, whatever the seed and the client."""
    # A multiplicative hash, since neighboring rows may be alike.
    return (rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(63)).astype(bool)


def _select(rows: Rows, mask: NDArray[np.bool_]) -> Rows:
    return replace(rows, rows=rows.rows[mask], owners=None if rows.owners is None else rows.owners[mask])


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
