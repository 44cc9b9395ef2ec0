"""The score of a model: the metric that picks the best model of a run and compares remedies."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field, PrivateAttr

from eunoe.config import registry
from eunoe.config.options import ScoreName
from eunoe.core.tasks import EVERY, LABELED, Task, check_task
from eunoe.errors import InputError
from eunoe.metrics.base import Evaluation, EvaluationMetric, Need, Snapshot
from eunoe.metrics.forgetting import spread
from eunoe.metrics.standard import to_number

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
