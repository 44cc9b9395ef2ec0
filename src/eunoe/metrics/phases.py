"""Accuracy and transfer over the phases of a stream: the metric `phases`, and its numbers as pure functions.

R[i, j] is the accuracy on the data of phase j after phase i, of T phases; functions take it as rows up to the
last finished phase. Backward and forward transfer are those of Lopez-Paz and Ranzato (2017,
https://arxiv.org/abs/1706.08840), forgetting is that of Chaudhry et al. (2018,
https://arxiv.org/abs/1801.10112).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, PrivateAttr

from eunoe.core.tasks import EVERY
from eunoe.metrics.base import Evaluation, Floats, Snapshot, ValuesMetric
from eunoe.metrics.forgetting import known_mean


def backward_transfer(accuracy: ArrayLike) -> float:
    """Return mean_j<T (R[T, j] - R[j, j]), the change on earlier phases since they ended; NaN for one phase.

    Example::

        backward_transfer([[0.9, 0.1], [0.6, 0.8]])  # -0.3: the first phase fell from 0.9 to 0.6
    """
    table = np.asarray(accuracy, np.float64)
    last = len(table) - 1
    return float(known_mean([table[last, j] - table[j, j] for j in range(last)]))


def forward_transfer(accuracy: ArrayLike, untrained: ArrayLike) -> float:
    """Return mean_j>1 (R[j-1, j] - b[j]), the gain on a phase before it begins; NaN for one phase.

    `untrained` is b, the accuracy of an untrained model on each phase.
    """
    table, base = np.asarray(accuracy, np.float64), np.asarray(untrained, np.float64)
    return float(known_mean([table[j - 1, j] - base[j] for j in range(1, len(table))]))


def temporal_forgetting(accuracy: ArrayLike) -> Floats:
    """Return max_i<T R[i, j] - R[T, j], the loss from the best, of each phase j < T; empty for one phase."""
    table = np.asarray(accuracy, np.float64)
    last = len(table) - 1
    return np.array([np.nanmax(table[j:last, j]) - table[last, j] for j in range(last)])


def recovery(curve: ArrayLike, rounds: Sequence[int], phases: Sequence[int]) -> list[int | None]:
    """Return the rounds that each phase after the first needs to regain the accuracy from before it.

    `phases` are the first rounds of all phases. None: not regained within the phase.
    """
    heights, at = np.asarray(curve, np.float64), np.asarray(rounds)
    needed: list[int | None] = []
    for number, first in enumerate(phases[1:], start=1):
        before = heights[at < first]
        end = phases[number + 1] if number + 1 < len(phases) else np.inf
        inside = (at >= first) & (at < end)
        regained = np.flatnonzero(heights[inside] >= before[-1]) if len(before) else np.empty(0, np.int64)
        needed.append(int(at[inside][regained[0]] - first) if len(regained) else None)
    return needed


class Phases(ValuesMetric):
    """Accuracy on past, present and all classes so far, and transfer between the phases of a stream.

    For a stream without groups of classes it records the phase of each round and the loss from the best
    accuracy of the phase.
    """

    tasks = EVERY

    first_rounds: tuple[int, ...] = Field((1,), description="The first round of each phase.")
    groups: tuple[tuple[int, ...], ...] = Field((), description="The classes that come with each phase.")
    _rows: dict[int, list[float]] = PrivateAttr(default_factory=dict)
    _best: float = PrivateAttr(float("nan"))
    _phase: int = PrivateAttr(-1)

    def update(self, model: Snapshot) -> None:
        evaluation = model.evaluations.get("test") or model.evaluations.get("validation")
        self._values = {}
        if evaluation is None:
            return
        phase = int(np.searchsorted(self.first_rounds, model.round, side="right")) - 1
        accuracy = float(evaluation.scores.mean())
        self._best = accuracy if phase != self._phase else max(self._best, accuracy)
        self._phase = phase
        began = self.first_rounds[phase]
        self._values = {"phase": phase + 1, "began": began, "below_best": self._best - accuracy}
        if self.groups:
            self._values |= self._by_group(evaluation, phase)

    def _by_group(self, evaluation: Evaluation, phase: int) -> dict[str, float]:
        """Return the numbers of a stream of classes; a phase's row is that of its last evaluated round."""
        row = [_accuracy(evaluation, group) for group in self.groups]
        self._rows[phase] = row
        seen = [c for group in self.groups[: phase + 1] for c in group]
        values = {"present": row[phase], "seen": _accuracy(evaluation, seen)}
        if phase:
            values["past"] = _accuracy(evaluation, [c for group in self.groups[:phase] for c in group])
        if phase and sorted(self._rows) == list(range(phase + 1)):
            table = [self._rows[number] for number in range(phase + 1)]
            chance = [1 / evaluation.class_count] * len(self.groups)
            values |= {
                "backward_transfer": backward_transfer(table),
                "forward_transfer": forward_transfer(table, chance),
                "forgetting": float(known_mean(temporal_forgetting(table))),
            }
        return values

    def state(self) -> dict[str, Any]:
        rows = {str(number): row for number, row in self._rows.items()}
        return {"rows": rows, "best": self._best, "phase": self._phase}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._rows = {int(number): list(row) for number, row in state["rows"].items()}
        self._best, self._phase = state["best"], state["phase"]


def _accuracy(evaluation: Evaluation, classes: Sequence[int]) -> float:
    """Return the accuracy on the samples of some classes; NaN if there are none."""
    inside = np.isin(evaluation.labels, classes)
    return float(evaluation.right[inside].mean()) if inside.any() else float("nan")
