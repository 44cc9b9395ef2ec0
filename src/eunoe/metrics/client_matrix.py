"""Every local model of a round on every client's data: whose training forgets whose data."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PrivateAttr

from eunoe.core.tasks import EVERY
from eunoe.data.federation import Federation
from eunoe.metrics.base import Evaluation, Floats, Metric, Role, Rows, Snapshot, balanced_test_rows
from eunoe.metrics.forgetting import reweighted_accuracy
from eunoe.store.schema import ClientMatrixRecord

# Smaller validation parts are too noisy: the test set reweighted to the client's labels is better.
_FEW = 30


class ClientMatrix(Metric):
    """Accuracy of the start model and of each local model on each client's data.

    Multilabel: fraction of correct labels; regression: explained variance; both on the clients' validation
    parts.
    """

    sees: ClassVar[tuple[Role, ...]] = ("start", "local")
    tasks = EVERY

    data: Literal["auto", "participants", "clients", "test"] = Field(
        "auto", description="Whose data: see the probe's option of this name."
    )
    samples: int = Field(1000, ge=1, description="Size of the class-balanced part of the test set.")
    _owners: list[int] = PrivateAttr(default_factory=list)
    _clients: list[int | None] = PrivateAttr(default_factory=list)
    _counts: list[Any] = PrivateAttr(default_factory=list)
    _accuracy: list[Floats] = PrivateAttr(default_factory=list)
    _on: str = PrivateAttr("")

    def possible(self, federation: Federation) -> bool:
        return federation.task.name == "classification" or len(federation.pooled("validation")[0]) > 0

    def rows(self, federation: Federation, clients: Sequence[int], seed: int) -> Mapping[str, Rows]:
        self._owners = list(range(len(federation))) if self.data == "clients" else list(clients)
        parts = [federation.rows(client, "validation") for client in self._owners]
        # Only classes can be reweighted to a client's labels.
        few = federation.task.name == "classification" and min(len(part) for part in parts) < _FEW
        if self.data == "test" or (self.data == "auto" and few and len(federation.data.test)):
            return {"test": balanced_test_rows(federation, self.samples, seed)}
        owners = np.repeat(np.array(self._owners), [len(part) for part in parts])
        return {"validation": Rows("clients", np.concatenate(parts), owners)}

    def reset(self) -> None:
        self._clients, self._counts, self._accuracy = [], [], []

    def update(self, model: Snapshot) -> None:
        ((self._on, evaluation),) = model.evaluations.items()
        self._accuracy.append(evaluation.per_class if self._on == "test" else self._by_owner(evaluation))
        if model.role == "local":
            self._clients.append(model.client)
            self._counts.append(model.counts)

    def compute(self) -> ClientMatrixRecord:
        accuracy, owners = np.array(self._accuracy), [*(self._owners or self._clients)]
        if self._on == "test":
            if any(counts is None for counts in self._counts):
                return {}
            accuracy = reweighted_accuracy(accuracy, np.array(self._counts, np.float64))
        start, after = accuracy[0].tolist(), accuracy[1:].tolist()
        return {"models": self._clients, "data": owners, "on": self._on, "start": start, "after": after}

    def _by_owner(self, evaluation: Evaluation) -> Floats:
        """Return the accuracy on each owner's samples, which are sorted by owner; NaN for one without."""
        assert evaluation.owners is not None
        sizes = dict(zip(*np.unique(evaluation.owners, return_counts=True), strict=True))
        ends = np.cumsum([sizes.get(owner, 0) for owner in self._owners])
        cuts = np.split(evaluation.scores, ends[:-1])
        return np.array([cut.mean() if len(cut) else np.nan for cut in cuts])
