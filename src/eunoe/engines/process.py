"""Trains clients on all cores or devices of this machine: a single-threaded worker process for each.

Weights and updates go through shared memory; a pipe per worker carries tasks and replies.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from eunoe.core.flat_model import Weights
from eunoe.engines.base import Engine, chunks, concatenate
from eunoe.engines.client_states import ClientStates
from eunoe.engines.devices import FORKED, check_memory, expand
from eunoe.engines.simulation import Simulation
from eunoe.engines.workers import Evaluation, Participation, Workers
from eunoe.errors import InputError
from eunoe.metrics.base import Predictions, Rows
from eunoe.server.updates import Broadcast, Update
from eunoe.system.machine import cores


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
        if devices is None and per_device is not None:
            raise InputError("engine.per_device requires engine.devices")
        if devices is not None and workers is not None:
            raise InputError("engine.workers cannot be combined with engine.devices: set engine.per_device")
        if devices is None:
            names = ["cpu"] * (workers or cores())
            check_memory(len(names), simulation.model.weights, FORKED)
        else:
            # Every device has its first worker before any has a second.
            names = expand(devices) * (per_device or 1)
        self.workers = Workers(simulation, states, names)
        super().__init__(simulation, states)
        self.transfers = self.workers.transfers

    def train(self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        # A worker builds the simulation of the round itself.
        self.workers.send(broadcast)
        accepted = self.states.accepted
        tasks = [Participation(client, broadcast.round, accepted.get(client)) for client in clients]
        return self.workers.in_order(tasks)

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        parts = chunks(self.simulation, where)
        tasks = [Evaluation(part) for _ in models for part in parts]
        results = list(self.workers.in_order(tasks, [model for model in models for _ in parts]))
        return [concatenate(results[i : i + len(parts)]) for i in range(0, len(results), len(parts))]

    def close(self) -> None:
        self.workers.close()
