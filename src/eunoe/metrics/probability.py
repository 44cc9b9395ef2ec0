"""Output probability of each class, to compare with its share in the client's data."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import PrivateAttr

from eunoe.data.federation import Federation
from eunoe.metrics.base import Metric, Role, Rows, Snapshot
from eunoe.store.schema import Numbers, ProbabilityRecord


class Probability(Metric):
    """Mean output probability by class of each local model on the public set (Flashback paper, figure 9)."""

    sees: ClassVar[tuple[Role, ...]] = ("local",)

    _clients: list[int | None] = PrivateAttr(default_factory=list)
    _probability: list[Numbers] = PrivateAttr(default_factory=list)
    _counts: list[Any] = PrivateAttr(default_factory=list)

    def possible(self, federation: Federation) -> bool:
        return federation.public_train is not None and len(federation.public_train) > 0

    def rows(self, federation: Federation, clients: Sequence[int], seed: int) -> Mapping[str, Rows]:
        assert federation.public_train is not None
        return {"public": Rows("public", federation.public_train)}

    def reset(self) -> None:
        self._clients, self._probability, self._counts = [], [], []

    def update(self, model: Snapshot) -> None:
        public = model.evaluations["public"].predictions
        self._clients.append(model.client)
        self._probability.append((public.probability / len(public)).tolist())
        self._counts.append(model.counts)

    def compute(self) -> ProbabilityRecord:
        counts = np.stack(self._counts).tolist()
        return {"clients": self._clients, "probability": self._probability, "counts": counts}
