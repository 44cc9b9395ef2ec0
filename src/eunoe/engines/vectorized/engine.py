"""Trains many clients at once in this process: a stack is a matrix with a row per client, under vmap.

For small models, where Python costs more than arithmetic, this is several times faster than one client
after the other. Results differ from the other engines in the last bits, since sums are formed in
another order. Clients that cannot be vectorized train one after the other, with a warning.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.rng import global_stream
from eunoe.engines.base import Engine
from eunoe.engines.client import compress_update, make_client_context
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import note_client, train_and_save
from eunoe.engines.simulation import ClientData, Simulation
from eunoe.engines.vectorized.inputs import Common, Inputs, Own, collect_prepared
from eunoe.engines.vectorized.stack import ClientStack
from eunoe.engines.vectorized.steps import Steps
from eunoe.errors import NotVectorizable, first_line
from eunoe.methods.base import Finished, Method
from eunoe.methods.client_context import ClientContext
from eunoe.server.updates import Broadcast, Update

logger = logging.getLogger(__name__)

# The most parameters of a stack's models together, and the most clients, from the engine benchmark.
_PARAMETERS, _CLIENTS = 2_000_000, 256
# Messages of torch's transforms for unsupported operations, raised as plain RuntimeError.
_TRANSFORMS = ("vmap", "functorch", "BatchedTensor", "doesn't have storage", "During a grad")


def cohort_size(parameters: int) -> int:
    """Return how many clients train at once for a model with this many parameters."""
    return max(2, min(_CLIENTS, _PARAMETERS // parameters))


class Begun(NamedTuple):
    """A client, the state of its stream of torch's global generator, and the weights that are its own."""

    client: ClientContext
    stream: Tensor
    start: Weights | None


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
        self.steps = Steps(simulation)
        kind = type(simulation.method)
        self._needs_clients = kind.begin is not Method.begin or kind.finish is not Method.finish
        self._serial = declared_reason(simulation)
        self._warned = set[str]()
        self._terms_checked = False

    def train(self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        broadcast = broadcast.to(simulation.model.device)
        for first in range(0, len(clients), self.cohort):
            yield from self._train(simulation, clients[first : first + self.cohort], broadcast)

    def _train(
        self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast
    ) -> Iterator[Update]:
        remembers = simulation.memory.replay or simulation.memory.label_counts
        everybody = [
            ClientData.load(simulation, client, self.states.load(client) if remembers else {})
            for client in clients
        ]
        data = {each.client: each for each in everybody if not each.skipped}
        done: dict[int, tuple[Update, Vectors]] = {}
        if self._serial is None and data:
            stack = ClientStack.plan(simulation, list(data.values()), self.steps.exact)
            if self.steps.has_buffers and not stack.equal:
                self._warn("batch normalization needs batches of equal size")
            else:
                try:
                    done = self._train_stack(stack, broadcast)
                except Exception as error:
                    self._serial = reason_of(error)
                    if self._serial is None:
                        raise
        if self._serial is not None:
            self._warn(self._serial)
        for client in clients:
            if client not in done:
                yield train_and_save(simulation, self.states, client, broadcast)
                continue
            update, state = done.pop(client)
            state = state | data[client].new_memory()
            if simulation.compression is not None:
                before = self.states.load(client)
                update, state = compress_update(simulation, update, broadcast, before, state)
                # No network carries it here.
                update.packed = {}
            self.states.save(client, broadcast.round, state)
            yield update

    def _train_stack(self, stack: ClientStack, broadcast: Broadcast) -> dict[int, tuple[Update, Vectors]]:
        simulation, model, start = stack.simulation, self.simulation.model, broadcast.weights
        with torch.random.fork_rng(devices=[]):
            begun = self._begin(stack, broadcast) if self._needs_clients else []
            clients = [entry.client for entry in begun]
            model.load(start)
            model.module.train()
            starts = [entry.start or start for entry in begun] or [start] * len(stack)
            vectors = [own.vectors() for own in starts]
            weights = Weights(**{name: torch.stack([own[name] for own in vectors]) for name in vectors[0]})
            inputs = self._inputs(stack, broadcast, weights, clients)
            networks = {name: n.features for name, n in clients[0].networks.items()} if clients else {}
            with _note_clients(stack.clients, broadcast.round):
                taken = self.steps.take(stack, inputs, networks, weights.parameters)
            results = {}
            for k, client in enumerate(stack.clients):
                own, finished = Weights(*(vector[k] for vector in weights.vectors().values())), Finished()
                if clients:
                    model.load(own)
                    clients[k].steps_taken = stack.steps[k]
                    clients[k].moments = {name: moment[k] for name, moment in taken.moments.items()}
                    torch.set_rng_state(begun[k].stream)
                    with note_client(client, broadcast.round):
                        finished = simulation.method.finish(clients[k])
                    own = model.weights.copy()
                update = Update(
                    client,
                    simulation.federation.size(client),
                    own.to("cpu"),
                    {name: value.detach().cpu() for name, value in finished.uploads.items()},
                    stack.steps[k],
                    taken.before[k],
                    taken.after[k],
                    round(taken.forwards * stack.samples[k]) + (clients[k].forwards if clients else 0),
                    round(taken.backwards * stack.samples[k]) + (clients[k].backwards if clients else 0),
                )
                results[client] = update, finished.state
        return results

    def _begin(self, stack: ClientStack, broadcast: Broadcast) -> list[Begun]:
        """Return the clients after the method's `begin`."""
        simulation, begun = stack.simulation, []
        for data, steps in zip(stack.data, stack.steps, strict=True):
            client, seed = data.client, stack.context.seed
            with global_stream(simulation.model.device, seed, "model", broadcast.round, client):
                simulation.model.load(broadcast.weights)
                simulation.model.module.train()
                client_context = make_client_context(data, broadcast, self.states.load(client), steps)
                with note_client(client, broadcast.round):
                    simulation.method.begin(client_context)
                own = simulation.model.weights.copy() if simulation.method.own_start else None
                begun.append(Begun(client_context, torch.get_rng_state(), own))
        return begun

    def _inputs(
        self, stack: ClientStack, broadcast: Broadcast, weights: Weights, clients: Sequence[ClientContext]
    ) -> Inputs:
        """Return what the steps read besides their weights and batches."""
        simulation, device = stack.simulation, self.simulation.model.device
        training, counts = simulation.context.training, stack.loss_counts
        own_prepared, common_prepared = collect_prepared(clients, stack.longest)
        decay: tuple[Tensor, ...] = ()
        if training.single_class == "no_decay" and training.weight_decay:
            learns = torch.tensor([simulation.loss.learns_from(row) for row in counts]).to(counts)
            decay = ((learns * training.weight_decay).to(device),)
        buffers = {"float_buffers": weights.float_buffers, "int_buffers": weights.int_buffers}
        own = Own(
            id=torch.tensor(stack.clients).to(device),
            size=torch.tensor([len(rows) for rows in stack.rows]).to(device),
            steps=torch.tensor(stack.steps).to(device),
            counts=stack.counts.to(device),
            terms=self._terms(counts).to(device),
            buffers={name: value for name, value in buffers.items() if value.numel()},
            weight_decay=decay,
            prepared=own_prepared,
            moments={},
        )
        return Inputs(own, Common(broadcast.weights.vectors(), broadcast.shared, common_prepared))

    def _terms(self, counts: Tensor) -> Tensor:
        """Return the loss's terms of every client's counts, checked once against those of the first alone."""
        loss = self.simulation.loss
        terms = loss.terms(counts)
        if not self._terms_checked and len(counts) > 1:
            if not torch.allclose(terms[0], loss.terms(counts[0]), equal_nan=True):
                raise NotVectorizable("the loss's terms(counts) must read each row of the counts by itself")
            self._terms_checked = True
        return terms

    def _warn(self, reason: str) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            logger.warning("clients train one after the other: %s", reason)


def declared_reason(simulation: Simulation) -> str | None:
    """Return why no client of a simulation can be vectorized, if that is known before it trains."""
    if not simulation.method.vectorizes:
        return f"the method {type(simulation.method).__name__} does not vectorize"
    if any(_draws(module) for module in simulation.model.module.modules()):
        return "the model draws random numbers (dropout)"
    return None


def _draws(module: nn.Module) -> bool:
    """Return whether a layer draws random numbers in training."""
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    return isinstance(module, nn.RReLU)


def reason_of(error: Exception) -> str | None:
    """Return why an exception means that clients cannot be vectorized; None if it is another error."""
    if isinstance(error, NotVectorizable):
        return str(error)
    if isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in _TRANSFORMS):
        return f"this could not be vectorized ({first_line(error)})"
    return None


@contextmanager
def _note_clients(clients: Sequence[int], round: int) -> Iterator[None]:
    """Add a note to an exception: which clients trained in which round, and what may help."""
    try:
        yield
    except Exception as error:
        names = f"client {clients[0]}" if len(clients) == 1 else f"clients {', '.join(map(str, clients))}"
        error.add_note(
            f"This happened while {names} trained at once in round {round}. If engine 'serial' works, the "
            "method cannot be vectorized: set its `vectorizes` to False."
        )
        raise
