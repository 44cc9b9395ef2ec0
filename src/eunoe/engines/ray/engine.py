"""Trains clients on a Ray cluster: a single-threaded worker per core, with one or a few clients per task.

The simulation is put into Ray's object store once and sent once to each node, whose workers share it; so
are a round's weights. A client's state is sent with its task and returned with its update.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from eunoe.core.flat_model import Weights
from eunoe.engines.base import Engine, chunks, concatenate
from eunoe.engines.client_states import ClientStates
from eunoe.engines.ray.actor import pack
from eunoe.engines.ray.cluster import Cluster
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.metrics.base import Predictions, Rows
from eunoe.server.updates import Broadcast, Update

# A round is cut into at least this many tasks per core, so that all cores finish at about the same time;
# and no task returns more than these bytes, unless a single client does.
_SHARES = 16
_BYTES = 2**20


class Ray(Engine):
    """A Ray cluster, or a local Ray instance."""

    def __init__(
        self,
        simulation: Simulation,
        states: ClientStates,
        address: Annotated[
            str | None, Field(description="Ray cluster to join; by default a local one.")
        ] = None,
        workers: Annotated[
            int | None, Field(ge=1, description="Worker processes; by default one per core.")
        ] = None,
        devices: Annotated[
            Literal["cuda"] | None,
            Field(description='"cuda": train on the GPUs that Ray assigns; by default on cores.'),
        ] = None,
        per_device: Annotated[
            int | None, Field(ge=1, le=1024, description="Worker processes of each GPU; by default one.")
        ] = None,
    ) -> None:
        if devices is None and per_device is not None:
            raise InputError("engine.per_device requires engine.devices")
        self.cluster = Cluster(simulation, address, workers, devices and (per_device or 1))
        super().__init__(simulation, states)
        self.transfers = self.cluster.transfers

    def train(self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        # An actor builds the simulation of the round itself.
        groups, message = self._groups(clients), self.cluster.put(broadcast)

        def submit(actor: Any, number: int) -> Any:
            states = pack([self.states.load(client) for client in groups[number]])
            return actor.train.remote([message], groups[number], states)

        for group in self.cluster.in_order(len(groups), submit):
            for update, state in group:
                self.states.save(update.client, broadcast.round, state)
                yield update

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        parts = chunks(self.simulation, where)
        together = max(1, len(models) * len(parts) // (_SHARES * self.cluster.places()))
        cuts = range(0, len(parts), together)
        tasks = [(model, parts[cut : cut + together]) for model in range(len(models)) for cut in cuts]
        # One model at a time: a round may have hundreds.
        stored: dict[int, Any] = {}

        def submit(actor: Any, number: int) -> Any:
            model, share = tasks[number]
            if model not in stored:
                stored.clear()
                stored[model] = self.cluster.put(models[model])
            return actor.evaluate.remote([stored[model]], share)

        by_model: list[list[Predictions]] = [[] for _ in models]
        for (model, _), predictions in zip(tasks, self.cluster.in_order(len(tasks), submit), strict=True):
            by_model[model] += predictions
        return [concatenate(predictions) for predictions in by_model]

    def _groups(self, clients: Sequence[int]) -> list[Sequence[int]]:
        """Return the clients of each task."""
        self.cluster.hire()
        weights = self.simulation.model.weights
        uploads = self.simulation.method.uploads(self.simulation.context)
        extra = sum(upload.size for upload in uploads.values()) * weights.parameters.itemsize
        size = sum(vector.nbytes for vector in weights.vectors().values()) + extra
        together = max(1, min(len(clients) // (_SHARES * self.cluster.places()), _BYTES // size))
        return [clients[i : i + together] for i in range(0, len(clients), together)]

    def close(self) -> None:
        self.cluster.close()
