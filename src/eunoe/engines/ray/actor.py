"""The actors of the Ray engine."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from eunoe.engines.base import evaluate_chunk
from eunoe.engines.client import train_client
from eunoe.engines.devices import WorkerDevice
from eunoe.engines.ray.packing import Packed, pack, unpack
from eunoe.engines.serial import note_client
from eunoe.engines.simulation import Simulation
from eunoe.engines.workers import portable_error
from eunoe.metrics.base import Rows
from eunoe.server.updates import Broadcast, Update
from eunoe.system.memory import keep_freed_memory


class Actor:
    """A worker. References come in lists, since Ray would otherwise resolve them for every task."""

    def __init__(self, references: list[Any], device: str = "cpu", sharing: int = 1) -> None:
        import ray

        torch.set_num_threads(1)
        keep_freed_memory()
        simulation: Simulation = unpack(ray.get(references[0]), copy=False)
        self._device = WorkerDevice(simulation, device, sharing)
        self._last: tuple[str, Any] = ("", None)

    def ready(self) -> None:
        """Return once the simulation is loaded."""

    def train(self, references: list[Any], clients: Sequence[int], states: Packed) -> Packed:
        """Train a few clients; return their updates and new states."""

        def work() -> list[tuple[Update, Any]]:
            broadcast: Broadcast = self._receive(references[0])
            simulation, on_device = self._device.in_round(broadcast.round), self._device.received(broadcast)
            results = []
            for client, state in zip(clients, unpack(states), strict=True):
                with note_client(client, broadcast.round):
                    update, new_state = train_client(simulation, client, on_device, state)
                # The server reads the whole vectors, and Ray shares them without a copy.
                update.packed = {}
                results.append((update, new_state))
            return results

        return self._answer(work)

    def evaluate(self, references: list[Any], parts: Sequence[Rows]) -> Packed:
        """Return a model's predictions on a few chunks."""
        return self._answer(
            lambda: [evaluate_chunk(self._device.simulation, self._receive(references[0]), p) for p in parts]
        )

    def _receive(self, reference: Any) -> Any:
        """Fetch a value that the driver stored for many tasks, once."""
        import ray

        if self._last[0] != reference.hex():
            self._last = reference.hex(), unpack(ray.get(reference))
        return self._last[1]

    def _answer(self, work: Callable[[], Any]) -> Packed:
        from ray import cloudpickle
        from ray.exceptions import RayError

        try:
            kind, value = "results", work()
        except RayError:
            raise
        except Exception as error:
            kind, value = "error", portable_error(error, cloudpickle)
        return pack((kind, value, self._device.transfers.take()))
