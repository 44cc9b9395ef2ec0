"""The probes: metrics of the local models of a round, besides its start model and new global model."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, PrivateAttr
from torch import Tensor

from eunoe.core.tasks import EVERY, LABELED
from eunoe.data.federation import Federation
from eunoe.metrics.base import Evaluation, Floats, Metric, Role, Rows, Snapshot, draw_test_rows
from eunoe.metrics.forgetting import DriftSum, reweighted_accuracy
from eunoe.store.schema import (
    ClientMatrixRecord,
    DriftRecord,
    LocalPerClassRecord,
    Numbers,
    ProbabilityRecord,
)

# Smaller validation parts are too noisy: the test set reweighted to the client's labels is better.
_FEW = 30


class LocalMetric(Metric):
    """Base of probes: collects numbers by role, and the clients of local models with their label counts."""

    _numbers: dict[Role, list[Any]] = PrivateAttr(default_factory=lambda: defaultdict(list))
    _clients: list[int | None] = PrivateAttr(default_factory=list)
    _counts: list[Any] = PrivateAttr(default_factory=list)

    @abstractmethod
    def measure(self, model: Snapshot) -> Any:
        """Return the numbers of one model."""

    def reset(self) -> None:
        self._numbers, self._clients, self._counts = defaultdict(list), [], []

    def update(self, model: Snapshot) -> None:
        self._numbers[model.role].append(self.measure(model))
        if model.role == "local":
            self._clients.append(model.client)
            self._counts.append(model.counts)

    @property
    def label_counts(self) -> Any:
        """Label counts [clients, classes]; None if those of a client are unknown."""
        return None if any(counts is None for counts in self._counts) else np.stack(self._counts)


class ClientMatrix(LocalMetric):
    """Accuracy of the start model and of each local model on each client's data.

    Multilabel: fraction of correct labels; regression: explained variance; both on the clients' validation
    parts.
    """

    sees = ("start", "local")
    tasks = EVERY

    data: Literal["auto", "participants", "clients", "test"] = Field("auto", description="Whose data.")
    samples: int = Field(1000, ge=1, description="Size of the class-balanced part of the test set.")
    _owners: list[int] = PrivateAttr(default_factory=list)
    _on: str = PrivateAttr("")

    def possible(self, federation: Federation) -> bool:
        return federation.task.name == "classification" or len(federation.pooled("validation")[0]) > 0

    def rows(self, federation: Federation, clients: Sequence[int], seed: int) -> Mapping[str, Rows]:
        self._owners = list(range(len(federation))) if self.data == "clients" else list(clients)
        parts = [federation.rows(client, "validation") for client in self._owners]
        # Only classes can be reweighted to a client's labels.
        few = federation.task.name == "classification" and min(len(part) for part in parts) < _FEW
        if self.data == "test" or (self.data == "auto" and few and len(federation.data.test)):
            return {"test": draw_test_rows(federation, self.samples, seed)}
        owners = np.repeat(np.array(self._owners), [len(part) for part in parts])
        return {"validation": Rows("clients", np.concatenate(parts), owners)}

    def measure(self, model: Snapshot) -> Floats:
        ((self._on, evaluation),) = model.evaluations.items()
        return evaluation.per_class if self._on == "test" else self._by_owner(evaluation)

    def compute(self) -> ClientMatrixRecord:
        accuracy = np.array([*self._numbers["start"], *self._numbers["local"]])
        if self._on == "test":
            if self.label_counts is None:
                return {}
            accuracy = reweighted_accuracy(accuracy, self.label_counts)
        start, after = accuracy[0].tolist(), accuracy[1:].tolist()
        owners = [*(self._owners or self._clients)]
        return {"models": self._clients, "data": owners, "on": self._on, "start": start, "after": after}

    def _by_owner(self, evaluation: Evaluation) -> Floats:
        """Return the accuracy on each owner's samples, which are sorted by owner; NaN for one without."""
        assert evaluation.owners is not None
        sizes = dict(zip(*np.unique(evaluation.owners, return_counts=True), strict=True))
        ends = np.cumsum([sizes.get(owner, 0) for owner in self._owners])
        cuts = np.split(evaluation.scores, ends[:-1])
        return np.array([cut.mean() if len(cut) else np.nan for cut in cuts])


class LocalPerClass(LocalMetric):
    """Accuracy by class and loss before local training, after it at each client, and after aggregation."""

    sees = ("start", "local", "global")
    tasks = LABELED

    samples: int = Field(1000, ge=1, description="Size of the class-balanced part of the test set.")

    def possible(self, federation: Federation) -> bool:
        return len(federation.data.test) > 0

    def rows(self, federation: Federation, clients: Sequence[int], seed: int) -> Mapping[str, Rows]:
        return {"test": draw_test_rows(federation, self.samples, seed)}

    def measure(self, model: Snapshot) -> tuple[Numbers, float]:
        evaluation = model.evaluations["test"]
        return evaluation.per_class.tolist(), evaluation.loss

    def compute(self) -> LocalPerClassRecord:
        (start,), local, (end,) = (self._numbers[role] for role in self.sees)
        return {
            "clients": self._clients,
            "start": start[0],
            "local": [accuracy for accuracy, _ in local],
            "merged": end[0],
            "counts": None if self.label_counts is None else self.label_counts.tolist(),
            "loss": {"start": start[1], "local": [loss for _, loss in local], "merged": end[1]},
        }


class Probability(LocalMetric):
    """Mean output probability by class of each local model on the public set (Flashback paper, figure 9)."""

    sees = ("local",)

    def possible(self, federation: Federation) -> bool:
        return federation.public_train is not None and len(federation.public_train) > 0

    def rows(self, federation: Federation, clients: Sequence[int], seed: int) -> Mapping[str, Rows]:
        assert federation.public_train is not None
        return {"public": Rows("public", federation.public_train)}

    def measure(self, model: Snapshot) -> Numbers:
        public = model.evaluations["public"].predictions
        return (public.probability / len(public)).tolist()

    def compute(self) -> ProbabilityRecord:
        counts = self.label_counts.tolist()
        return {"clients": self._clients, "probability": self._numbers["local"], "counts": counts}


class Drift(LocalMetric):
    """Distances of local models from their start and from each other, and the cosine between updates."""

    sees = ("start", "local")
    tasks = EVERY

    _start: Tensor | None = PrivateAttr(None)
    _sum: DriftSum = PrivateAttr(default_factory=DriftSum)

    def reset(self) -> None:
        super().reset()
        self._start, self._sum = None, DriftSum()

    def measure(self, model: Snapshot) -> None:
        if self._start is None:
            self._start = model.parameters.double()
        else:
            self._sum.add((model.parameters.double() - self._start).cpu().numpy())

    def compute(self) -> DriftRecord:
        lengths, apart, cosine = self._sum.result()
        return {"clients": self._clients, "from_start": [*lengths], "apart": apart, "cosine": cosine}
