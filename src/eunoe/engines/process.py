"""Trains clients on all cores or devices of this machine: a single-threaded worker process for each.

Weights and updates go through shared memory; a pipe per worker carries tasks and replies.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from eunoe.core.flat_model import Weights
from eunoe.engines.base import Engine, chunks, joined
from eunoe.engines.client import Broadcast, Update
from eunoe.engines.client_states import ClientStates
from eunoe.engines.devices import bound, expand
from eunoe.engines.room import FORKED, check_room
from eunoe.engines.simulation import Simulation
from eunoe.engines.workers import Evaluation, Participation, Workers
from eunoe.errors import InputError
from eunoe.metrics.base import Predictions, Rows
from eunoe.system.machine import cores


class ProcessTrainer:
    """Trains clients in worker processes."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        self.workers.send(broadcast)
        accepted = self.workers.states.accepted
        tasks = [Participation(client, broadcast.round, accepted.get(client)) for client in clients]
        return self.workers.in_order(tasks)


class ProcessEvaluator:
    """Evaluates chunks of samples in worker processes."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        parts = chunks(self.workers.simulation, where)
        tasks = [Evaluation(part) for _ in models for part in parts]
        owners = [model for model in models for _ in parts]
        results = list(self.workers.in_order(tasks, owners))
        return [joined(results[i : i + len(parts)]) for i in range(0, len(results), len(parts))]


class Process(Engine):
    """A worker process per core, or several per device."""

    def __init__(
        self,
        simulation: Simulation,
        states: ClientStates,
        workers: Annotated[
            int | None, Field(ge=1, description="Worker processes; by default one per core.")
        ] = None,
        devices: Annotated[
            str | None,
            Field(description='Devices to train on, as "cuda:*" or "cuda:0,cuda:1"; by default the CPU.'),
        ] = None,
        per_device: Annotated[
            int | None, Field(ge=1, le=1024, description="Worker processes of each device; by default one.")
        ] = None,
    ) -> None:
        if simulation.model.device.type != "cpu":
            raise InputError(
                "the process engine has workers on devices: set engine.devices in place of engine.device"
            )
        if devices is None and per_device is not None:
            raise InputError("engine.per_device counts the workers of a device: set engine.devices too")
        if devices is not None and workers is not None:
            raise InputError("engine.workers is of cores: set engine.per_device with engine.devices")
        if "fork" not in multiprocessing.get_all_start_methods():
            raise InputError("the process engine needs a system that can fork; use engine 'serial' here")
        places = (
            ["cpu"] * (workers or cores()) if devices is None else bound(expand(devices), per_device or 1)
        )
        if devices is None:
            check_room(len(places), simulation.model.weights, FORKED)
        self.workers = Workers(simulation, states, places)
        super().__init__(simulation, states, ProcessTrainer(self.workers), ProcessEvaluator(self.workers))
        self.transfers = self.workers.transfers

    def close(self) -> None:
        self.workers.close()
