"""What a stream's phases cost: accuracy on classes of the past and of the present, transfer, recovery."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field, PrivateAttr

from eunoe.core.tasks import EVERY
from eunoe.metrics.base import Metric, Place, Snapshot
from eunoe.metrics.forgetting import known_mean
from eunoe.metrics.transfer import backward_transfer, forward_transfer, temporal_forgetting


class Phases(Metric):
    """Accuracy on past, present and all classes so far, and what the phases lose and gain.

    Of a stream without groups of classes it records the phase of each round and what is lost of the best
    accuracy since the phase began.
    """

    tasks = EVERY

    first_rounds: tuple[int, ...] = Field((1,), description="The first round of each phase.")
    groups: tuple[tuple[int, ...], ...] = Field((), description="The classes that come with each phase.")
    _rows: dict[int, list[float]] = PrivateAttr(default_factory=dict)
    _best: float = PrivateAttr(float("nan"))
    _phase: int = PrivateAttr(-1)
    _found: dict[str, Any] = PrivateAttr(default_factory=dict)

    def update(self, model: Snapshot) -> None:
        place = model.places.get("test") or model.places.get("validation")
        self._found = {}
        if place is None:
            return
        phase = int(np.searchsorted(self.first_rounds, model.round, side="right")) - 1
        accuracy = float(place.scores.mean())
        self._best = accuracy if phase != self._phase else max(self._best, accuracy)
        self._phase = phase
        began = self.first_rounds[phase]
        self._found = {"phase": phase + 1, "began": began, "below_best": self._best - accuracy}
        if self.groups:
            self._found |= self._by_group(place, phase)

    def _by_group(self, place: Place, phase: int) -> dict[str, float]:
        """The numbers of a stream of classes; each phase's row is that of its last evaluated round."""
        row = [_accuracy(place, group) for group in self.groups]
        self._rows[phase] = row
        now = {
            "present": row[phase],
            "seen": _accuracy(place, [c for group in self.groups[: phase + 1] for c in group]),
        }
        if phase:
            now["past"] = _accuracy(place, [c for group in self.groups[:phase] for c in group])
        if phase and sorted(self._rows) == list(range(phase + 1)):
            table = [self._rows[number] for number in range(phase + 1)]
            chance = [1 / place.class_count] * len(self.groups)
            now |= {
                "backward_transfer": backward_transfer(table),
                "forward_transfer": forward_transfer(table, chance),
                "forgetting": float(known_mean(temporal_forgetting(table))),
            }
        return now

    def compute(self) -> Mapping[str, Any]:
        return self._found

    def state(self) -> dict[str, Any]:
        rows = {str(number): row for number, row in self._rows.items()}
        return {"rows": rows, "best": self._best, "phase": self._phase}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._rows = {int(number): list(row) for number, row in state["rows"].items()}
        self._best, self._phase = state["best"], state["phase"]


def _accuracy(place: Place, classes: tuple[int, ...] | list[int]) -> float:
    """Accuracy on the samples of some classes; NaN if there are none."""
    inside = np.isin(place.labels, classes)
    return float(place.right[inside].mean()) if inside.any() else float("nan")
