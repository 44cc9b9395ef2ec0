"""Retention: what is left of the start model's knowledge on reference sets.

share        m_t / m_0
forgetting   mean over classes or labels of max(0, a_0[c] - a_t[c]); of other tasks max(0, m_0 - m_t)

m_t      main metric of the task after round t (accuracy, macro-F1, R²), before the first round m_0; of
         language models the gain over a uniform guess of V tokens, log V - loss, in nats per token
a_t[c]   accuracy of class c, or balanced accuracy of label c
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import PrivateAttr

from eunoe.core.tasks import EVERY, LABELED
from eunoe.data.federation import Federation
from eunoe.metrics.base import Evaluation, Metric, Rows, Snapshot
from eunoe.metrics.forgetting import round_forgetting

_PREFIX = "retain test "


class Retention(Metric):
    """The share of the start model's main metric that is left on each reference set, and its forgetting."""

    tasks = EVERY

    _start: dict[str, list[float]] = PrivateAttr(default_factory=dict)
    _values: dict[str, Any] = PrivateAttr(default_factory=dict)

    def possible(self, federation: Federation) -> bool:
        return bool(federation.references)

    def rows(self, federation: Federation, clients: Sequence[int], seed: int) -> Mapping[str, Rows]:
        sets = {f"{_PREFIX}{name}": data.test for name, data in federation.references.items()}
        return {source: Rows(source, np.arange(len(samples))) for source, samples in sets.items()}

    @property
    def begun(self) -> bool:
        """Whether the start model was measured."""
        return bool(self._start)

    def begin(self, evaluations: Mapping[str, Evaluation]) -> None:
        """Measure the start model."""
        self._start = {name: _known(each) for name, each in evaluations.items()}

    def update(self, model: Snapshot) -> None:
        sets = {}
        for name, (whole, *parts) in self._start.items():
            evaluation = model.evaluations[name]
            now, *parts_now = _known(evaluation)
            sets[name.removeprefix(_PREFIX)] = {
                "start": whole,
                evaluation.task.metric: evaluation.standard[evaluation.task.metric],
                "loss": evaluation.loss,
                "share": now / whole if whole > 0 else None,
                "forgetting": round_forgetting(parts or [whole], parts_now or [now]),
            }
        shares = [each["share"] for each in sets.values()]
        least = None if None in shares else min(shares)
        most = max(each["forgetting"] for each in sets.values())
        self._values = {"share": least, "forgetting": most, "sets": sets}

    def compute(self) -> Mapping[str, Any]:
        return self._values

    def state(self) -> dict[str, Any]:
        return {"start": self._start}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._start = {name: list(values) for name, values in state["start"].items()}


def _known(evaluation: Evaluation) -> list[float]:
    """Return what retention is a share of, then the accuracy of each class or label."""
    parts = evaluation.per_class.tolist() if evaluation.task.name in LABELED else []
    whole = evaluation.standard[evaluation.task.metric]
    if evaluation.task.name == "language_model":
        whole = math.log(evaluation.class_count) - evaluation.loss
    return [float(whole), *map(float, parts)]
