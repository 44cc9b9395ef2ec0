"""How far local training moves models from the start model and from each other."""

from typing import ClassVar

from pydantic import PrivateAttr
from torch import Tensor

from eunoe.core.tasks import EVERY
from eunoe.metrics.base import Metric, Role, Snapshot
from eunoe.metrics.forgetting import DriftSum
from eunoe.store.schema import DriftRecord, Numbers


class Drift(Metric):
    """Distances of local models from their start and from each other, and the cosine between updates."""

    sees: ClassVar[tuple[Role, ...]] = ("start", "local")
    tasks = EVERY

    _start: Tensor | None = PrivateAttr(None)
    _clients: list[int | None] = PrivateAttr(default_factory=list)
    _sum: DriftSum = PrivateAttr(default_factory=DriftSum)

    def reset(self) -> None:
        self._start, self._clients, self._sum = None, [], DriftSum()

    def update(self, model: Snapshot) -> None:
        if self._start is None:
            self._start = model.parameters.double()
        else:
            self._clients.append(model.client)
            self._sum.add((model.parameters.double() - self._start).cpu().numpy())

    def compute(self) -> DriftRecord:
        drift = self._sum.result()
        from_start: Numbers = [float(length) for length in drift.from_start]
        return {
            "clients": self._clients,
            "from_start": from_start,
            "apart": drift.apart,
            "cosine": drift.cosine,
        }
