"""The actors of the Ray engine."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from eunoe.engines.aggregation import Aggregator, Examined
from eunoe.engines.attacks import attacked
from eunoe.engines.base import evaluate_chunk
from eunoe.engines.client import Broadcast, Update, train_client, without_vectors
from eunoe.engines.devices import Place
from eunoe.engines.portable import portable
from eunoe.engines.ray.packing import Packed, packed, unpacked
from eunoe.engines.ray.slices import sent, sliced
from eunoe.engines.serial import noting
from eunoe.engines.simulation import Simulation
from eunoe.metrics.base import Rows
from eunoe.system.memory import keep_freed_memory


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

        return self._answer(lambda: list(self._trained(self._receive(references[0]), clients, states)))

    def _trained(
        self, broadcast: Broadcast, clients: Sequence[int], states: Packed
    ) -> Iterator[tuple[Update, Any]]:
        placed = self._place.received(broadcast)
        for client, state in zip(clients, unpacked(states), strict=True):
            with noting(client, broadcast.round):
                update, kept = train_client(self._simulation, client, placed, state)
            # The server reads the whole vectors, and Ray shares them without a copy.
            update.packed = {}
            yield update, kept

    def train_sliced(
        self, references: list[Any], clients: Sequence[int], states: Packed, parts: int
    ) -> tuple[Packed, ...]:
        """Train and examine a few clients; return that without vectors, and the slices of what is summed."""
        slices: list[Packed] = []

        def work() -> list[tuple[Examined, Any]]:
            broadcast: Broadcast = self._receive(references[0])
            simulation = self._simulation.in_round(broadcast.round)
            method, context = simulation.method, simulation.context_in(broadcast.round)
            aggregator = Aggregator(method, broadcast.weights, context, limits=simulation.limits)
            results, rows = [], []
            for update, kept in self._trained(broadcast, clients, states):
                examined = aggregator.examined(attacked(simulation, update, broadcast))
                if examined.problem is None:
                    rows.append(sent(method, examined.update, broadcast.weights))
                results.append((examined._replace(update=without_vectors(examined.update)), kept))
            slices.extend(sliced(rows, parts))
            return results

        answer = self._answer(work)
        return answer, *(slices or [packed(None)] * parts)

    def evaluate(self, references: list[Any], parts: Sequence[Rows]) -> Packed:
        """A model's predictions on a few chunks."""
        return self._answer(
            lambda: [evaluate_chunk(self._simulation, self._receive(references[0]), p) for p in parts]
        )

    def _receive(self, reference: Any) -> Any:
        """A value that the driver stored for many tasks, fetched once."""
        import ray

        if self._last[0] != reference.hex():
            self._last = reference.hex(), unpacked(ray.get(reference))
        return self._last[1]

    def _answer(self, work: Callable[[], Any]) -> Packed:
        from ray import cloudpickle
        from ray.exceptions import RayError

        try:
            return packed(("results", work(), self._place.transfers.taken()))
        except RayError:
            raise
        except Exception as error:
            return packed(("error", portable(error, cloudpickle), self._place.transfers.taken()))
