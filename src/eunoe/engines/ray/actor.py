"""The actors of the Ray engine, and the serialization of what they receive and return.

Torch's own pickling copies tensors into the bytes; here the memory of tensors and arrays is kept apart, so
that the object store shares it without a copy. Unpacked arrays are aligned to 64 bytes, as torch's own
memory: with another alignment kernels may sum in another order and give other bits.
"""

import io
import pickle
import warnings
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eunoe.engines.base import evaluate_chunk
from eunoe.engines.client import train_client
from eunoe.engines.devices import WorkerDevice
from eunoe.engines.serial import note_client
from eunoe.engines.simulation import Simulation
from eunoe.engines.workers import portable_error
from eunoe.metrics.base import Rows
from eunoe.server.updates import Broadcast, Update
from eunoe.system.machine import keep_freed_memory

Bytes = NDArray[np.uint8]
Packed = tuple[bytes, list[Bytes]]

_ALIGNMENT = 64


def pack(value: Any) -> Packed:
    """Pack a value; classes that the other side cannot import are pickled by value."""
    from ray.cloudpickle import CloudPickler

    file, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    # A pickler reads its class's dispatch table once, on construction.
    table = ChainMap({Tensor: _reduce}, CloudPickler.dispatch_table)
    pickler = type("Pickler", (CloudPickler,), {"dispatch_table": table})
    pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
    return file.getvalue(), [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


def unpack(parts: Packed, copy: bool = True) -> Any:
    """Unpack a value. Without `copy` its arrays share the store's memory, which must not be written to."""
    data, buffers = parts
    return pickle.loads(data, buffers=[_aligned(buffer, copy) for buffer in buffers])


def _aligned(buffer: Bytes, copy: bool) -> Bytes:
    with warnings.catch_warnings():
        # The store's memory is read-only, of which torch warns.
        warnings.simplefilter("ignore", UserWarning)
        tensor = torch.from_numpy(buffer)
    return (tensor.clone() if copy or tensor.data_ptr() % _ALIGNMENT else tensor).numpy()


def _reduce(tensor: Tensor) -> Any:
    try:
        return torch.from_numpy, (tensor.numpy(),)
    except (RuntimeError, TypeError):
        # Not on the CPU, part of a graph, or a tensor subclass.
        return tensor.__reduce_ex__(5)  # type: ignore[no-untyped-call]


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
