"""The actors of the Ray engine."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from eunoe.engines.base import evaluate_chunk
from eunoe.engines.devices import Place
from eunoe.engines.portable import portable
from eunoe.engines.ray.packing import Packed, packed, unpacked
from eunoe.engines.serial import noting
from eunoe.metrics.base import Rows
from eunoe.system.memory import keep_freed_memory
from eunoe.training.client import Broadcast, Update, train_client
from eunoe.training.simulation import Simulation


class Actor:
    """A worker. References come in lists, since Ray would otherwise resolve them for every task."""

    def __init__(self, references: list[Any], device: str = "cpu", sharing: int = 1) -> None:
        import ray

        torch.set_num_threads(1)
        keep_freed_memory()
        simulation: Simulation = unpacked(ray.get(references[0]), copy=False)
        self._place = Place(simulation, device, sharing)
        self._simulation = self._place.simulation
        self._last: tuple[str, Any] = ("", None)

    def ready(self) -> None:
        """Answer once the simulation is there."""

    def train(self, references: list[Any], clients: Sequence[int], states: Packed) -> Packed:
        """Train a few clients; return their updates and new states."""

        def work() -> list[tuple[Update, Any]]:
            broadcast: Broadcast = self._place.received(self._receive(references[0]))
            results = []
            for client, state in zip(clients, unpacked(states), strict=True):
                with noting(client, broadcast.round):
                    update, kept = train_client(self._simulation, client, broadcast, state)
                # The server reads the whole vectors, and Ray shares them without a copy.
                update.packed = {}
                results.append((update, kept))
            return results

        return _answer(work)

    def evaluate(self, references: list[Any], parts: Sequence[Rows]) -> Packed:
        """A model's predictions on a few chunks."""
        return _answer(
            lambda: [evaluate_chunk(self._simulation, self._receive(references[0]), p) for p in parts]
        )

    def _receive(self, reference: Any) -> Any:
        """A value that the driver stored for many tasks, fetched once."""
        import ray

        if self._last[0] != reference.hex():
            self._last = reference.hex(), unpacked(ray.get(reference))
        return self._last[1]


def _answer(work: Callable[[], Any]) -> Packed:
    from ray import cloudpickle
    from ray.exceptions import RayError

    try:
        return packed(("results", work()))
    except RayError:
        raise
    except Exception as error:
        return packed(("error", portable(error, cloudpickle)))
