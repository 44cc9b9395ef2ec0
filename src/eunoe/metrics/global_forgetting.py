"""Forgetting of the global model: in a round, and since each class was at its best."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field, PrivateAttr

from eunoe.core.tasks import EVERY
from eunoe.metrics.base import Snapshot, ValuesMetric
from eunoe.metrics.forgetting import fedntd_score, round_forgetting


class GlobalForgetting(ValuesMetric):
    """Round forgetting and FedNTD's score of the global model, on the test set or else on validation.

    They are means over classes or labels. Elsewhere they are means over clients of R² or token accuracy, on
    the test set only if its samples belong to clients.
    """

    tasks = EVERY

    over_gaps: bool = Field(False, description="Count losses over rounds that were not evaluated.")
    _on: str | None = PrivateAttr(None)
    _previous: list[float] | None = PrivateAttr(None)
    _round: int = PrivateAttr(0)
    _best: list[float] | None = PrivateAttr(None)

    def update(self, model: Snapshot) -> None:
        known: dict[str, Any] = {name: evaluation.knowledge for name, evaluation in model.evaluations.items()}
        known |= {name: _knowledge_elsewhere(numbers) for name, numbers in model.elsewhere.items()}
        known = {name: values for name, values in known.items() if values is not None}
        # Always on one set: with samples kept for judging, the test set is not evaluated in every round.
        where = self._on or ("test" if "test" in known and "judging" not in known else "validation")
        self._values = {}
        if where not in known:
            return
        self._on = where
        now = [float(value) for value in known[where]]
        # Not all clients of a federation answer in every round.
        self._previous, self._best = _as_long(self._previous, now), _as_long(self._best, now)
        now += [float("nan")] * (len(self._best or now) - len(now))
        # A loss over several rounds is not that of one round.
        follows = self._previous is not None and (self.over_gaps or self._round == model.round - 1)
        self._values = {
            "on": where,
            "round": round_forgetting(self._previous or [], now) if follows else None,
            "fedntd": fedntd_score([self._best, now]) if self._best else None,
        }
        self._previous, self._round = now, model.round
        self._best = [float(value) for value in np.fmax(self._best or now, now)]

    def state(self) -> dict[str, Any]:
        return {"on": self._on, "previous": self._previous, "round": self._round, "best": self._best}

    def restore(self, state: Mapping[str, Any]) -> None:
        # Checkpoints of version 0.1 do not have the set.
        self._on, self._previous = state.get("on"), state["previous"]
        self._round, self._best = state["round"], state["best"]


def _knowledge_elsewhere(numbers: Mapping[str, Any]) -> Any:
    """Return what a model can forget, from numbers computed on other machines."""
    if "per_class" in numbers:
        return numbers["per_class"]
    each = numbers["by_client"]
    known = np.full(max(each["clients"]) + 1, np.nan)
    known[each["clients"]] = each.get("accuracy") or 1 - np.asarray(each["loss"])
    return known


def _as_long(before: list[float] | None, now: list[float]) -> list[float] | None:
    return before and [*before, *[float("nan")] * (len(now) - len(before))]
