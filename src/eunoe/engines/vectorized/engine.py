"""Trains many clients at once in this process: a stack is a matrix with a row per client, under vmap.

For small models, where Python costs more than arithmetic, this is several times faster than one client
after the other. Results differ from the other engines in the last bits, since sums are formed in
another order. Clients that cannot be vectorized train one after the other, with a warning.
"""

import logging
from collections.abc import Iterator, Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from eunoe.core.flat_model import Vectors
from eunoe.core.rng import global_stream
from eunoe.engines.base import Engine
from eunoe.engines.client import finish_update, make_client_context, receive
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import note_client, train_and_save
from eunoe.engines.simulation import ClientData, Simulation
from eunoe.engines.vectorized.stack import StackClient
from eunoe.engines.vectorized.stacks import Stacks, Trained
from eunoe.errors import NotVectorizable
from eunoe.methods.base import Finished, Method
from eunoe.server.updates import Broadcast, Update

logger = logging.getLogger(__name__)

# The most parameters of a stack's models together, and the most clients, from the engine benchmark.
_PARAMETERS, _CLIENTS = 2_000_000, 256


def cohort_size(parameters: int) -> int:
    """Return how many clients train at once for a model with this many parameters."""
    return max(2, min(_CLIENTS, _PARAMETERS // parameters))


class Vectorized(Engine):
    """Many clients at once in this process; for small models."""

    def __init__(
        self,
        simulation: Simulation,
        states: ClientStates,
        cohort: Annotated[
            int | None, Field(ge=1, description="Clients that train at once; follows from the model.")
        ] = None,
    ) -> None:
        super().__init__(simulation, states)
        self.cohort = cohort or cohort_size(simulation.model.parameters.numel())
        self.stacks = Stacks(simulation)
        kind = type(simulation.method)
        self._needs_clients = kind.begin is not Method.begin or kind.finish is not Method.finish
        self._serial = declared_reason(simulation)
        self._warned = set[str]()

    def train(self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        broadcast = broadcast.to(simulation.model.device)
        if simulation.loss != self.stacks.simulation.loss:
            # Steps are recorded with their loss.
            self.stacks = Stacks(simulation)
        for first in range(0, len(clients), self.cohort):
            yield from self._train(simulation, clients[first : first + self.cohort], broadcast)

    def _train(
        self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast
    ) -> Iterator[Update]:
        remembers = simulation.memory.replay or simulation.memory.label_counts or simulation.private
        states = {client: self.states.load(client) if remembers else {} for client in clients}
        everybody = [ClientData.load(simulation, client, state) for client, state in states.items()]
        done: dict[int, tuple[Update, Vectors]] = {}
        if self._serial is None:
            try:
                members = [
                    self._begin(data, receive(simulation, data.client, broadcast, states[data.client]))
                    for data in everybody
                    if not data.skipped
                ]
                trained = self.take_steps(members) if members else []
                for member, result in zip(members, trained, strict=True):
                    done[member.data.client] = self._finish(member, result, broadcast)
            except NotVectorizable as reason:
                self._warn(str(reason))
                # Batches of a model with batch normalization may be of one size in another round.
                self._serial = None if self.stacks.steps.has_buffers else str(reason)
        else:
            self._warn(self._serial)
        for client in clients:
            if client not in done:
                yield train_and_save(simulation, self.states, client, broadcast)
                continue
            update, state = done.pop(client)
            # No network carries it here.
            update.packed = {}
            self.states.save(client, broadcast.round, state)
            yield update

    def take_steps(self, members: Sequence[StackClient]) -> list[Trained]:
        """Train clients at once; raise NotVectorizable if that is impossible."""
        return self.stacks.train(members)

    def _begin(self, data: ClientData, broadcast: Broadcast) -> StackClient:
        """Return a client after the method's `begin`."""
        member = StackClient.plan(data, broadcast)
        if self._needs_clients:
            simulation, client, round = data.simulation, data.client, broadcast.round
            model, seed = simulation.model, simulation.context.seed
            with global_stream(model.device, seed, "model", round, client), note_client(client, round):
                model.load(broadcast.weights)
                model.module.train()
                state = self.states.load(client)
                member.client = make_client_context(data, broadcast, state, len(member.lengths))
                simulation.method.begin(member.client)
                if simulation.method.own_start:
                    member.start = model.weights.copy()
                member.stream = torch.get_rng_state()
        return member

    def _finish(self, member: StackClient, trained: Trained, sent: Broadcast) -> tuple[Update, Vectors]:
        """Return a client's update and its new state, after the method's `finish`."""
        simulation, client, round = member.simulation, member.data.client, member.broadcast.round
        weights, finished, passed = trained.weights, Finished(), member.client
        if passed is not None and member.stream is not None:
            simulation.model.load(weights)
            passed.steps_taken, passed.moments = len(member.lengths), trained.moments
            with torch.random.fork_rng(devices=[]), note_client(client, round):
                torch.set_rng_state(member.stream)
                finished = simulation.method.finish(passed)
            weights = simulation.model.weights.copy()
        update = Update(
            client,
            simulation.federation.size(client),
            weights.to("cpu"),
            {name: value.detach().cpu() for name, value in finished.uploads.items()},
            len(member.lengths),
            trained.before,
            trained.after,
            trained.forwards + (passed.forwards if passed else 0),
            trained.backwards + (passed.backwards if passed else 0),
        )
        before = self.states.load(client) if simulation.compression is not None else {}
        new = finished.state | member.data.new_memory()
        return finish_update(simulation, update, member.broadcast, sent, before, new)

    def _warn(self, reason: str) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            logger.warning("clients train one after the other: %s", reason)


def declared_reason(simulation: Simulation) -> str | None:
    """Return why no client of a simulation can be vectorized, if that is known before it trains."""
    if not simulation.method.vectorizes:
        return f"the method {type(simulation.method).__name__} does not vectorize"
    if simulation.context.training.head_epochs:
        return "training.head_epochs trains two parts of the model in turn"
    for module in simulation.model.module.modules():
        drops = isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0
        if drops or isinstance(module, nn.RReLU):
            return "the model draws random numbers (dropout)"
    return None
