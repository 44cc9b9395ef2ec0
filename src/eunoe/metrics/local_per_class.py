"""The effect of local training and aggregation of a round on each class."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from eunoe.core.tasks import LABELED
from eunoe.data.federation import Federation
from eunoe.metrics.base import Metric, Role, Rows, Snapshot, balanced_test_rows
from eunoe.store.schema import LocalPerClassRecord, Numbers


class LocalPerClass(Metric):
    """Accuracy by class and loss before local training, after it at each client, and after aggregation."""

    sees: ClassVar[tuple[Role, ...]] = ("start", "local", "global")
    tasks = LABELED

    samples: int = Field(1000, ge=1, description="Size of the class-balanced part of the test set.")
    _seen: dict[Role, list[tuple[Numbers, float]]] = PrivateAttr(default_factory=dict)
    _clients: list[int | None] = PrivateAttr(default_factory=list)
    _counts: list[Any] = PrivateAttr(default_factory=list)

    def possible(self, federation: Federation) -> bool:
        return len(federation.data.test) > 0

    def rows(self, federation: Federation, clients: Sequence[int], seed: int) -> Mapping[str, Rows]:
        return {"test": balanced_test_rows(federation, self.samples, seed)}

    def reset(self) -> None:
        self._seen, self._clients, self._counts = {"start": [], "local": [], "global": []}, [], []

    def update(self, model: Snapshot) -> None:
        evaluation = model.evaluations["test"]
        self._seen[model.role].append((evaluation.per_class.tolist(), evaluation.loss))
        if model.role == "local":
            self._clients.append(model.client)
            self._counts.append(model.counts)

    def compute(self) -> LocalPerClassRecord:
        start, local, end = self._seen["start"][0], self._seen["local"], self._seen["global"][0]
        counted = all(counts is not None for counts in self._counts)
        return {
            "clients": self._clients,
            "start": start[0],
            "local": [accuracy for accuracy, _ in local],
            "merged": end[0],
            "counts": np.stack(self._counts).tolist() if counted else None,
            "loss": {"start": start[1], "local": [loss for _, loss in local], "merged": end[1]},
        }
