"""Trains clients in cohorts; those that cannot be vectorized train one after the other."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.rng import global_stream
from eunoe.engines.client import Broadcast, Update, as_sent, make_client_context
from eunoe.engines.client_states import ClientStates
from eunoe.engines.recall import Recalled, kept, recalled
from eunoe.engines.serial import noting, train_and_keep
from eunoe.engines.simulation import Simulation
from eunoe.engines.vectorized.cohort import Cohort
from eunoe.engines.vectorized.fallback import declared_reason, reason_of
from eunoe.engines.vectorized.inputs import Common, Inputs, Own, prepared_by
from eunoe.engines.vectorized.steps import Steps
from eunoe.errors import NotVectorizable
from eunoe.methods.base import Finished, Method
from eunoe.methods.client_context import ClientContext
from eunoe.methods.context import RoundContext

logger = logging.getLogger(__name__)


class Begun(NamedTuple):
    """A client, the state of its stream of torch's global generator, and the weights that are its own."""

    client: ClientContext
    stream: Tensor
    start: Weights | None


class CohortTrainer:
    """Trains one cohort of clients at a time."""

    def __init__(self, simulation: Simulation, states: ClientStates, cohort: int) -> None:
        self.simulation, self.states, self.cohort = simulation, states, cohort
        self.steps = Steps(simulation)
        kind = type(simulation.method)
        self._needs_clients = kind.begin is not Method.begin or kind.finish is not Method.finish
        self._serial = declared_reason(simulation)
        self._warned = set[str]()
        self._terms_checked = False

    def train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        broadcast = broadcast.to(self.simulation.model.device)
        for first in range(0, len(clients), self.cohort):
            yield from self._train(clients[first : first + self.cohort], broadcast)

    def _train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        simulation = self.simulation.in_round(broadcast.round)
        training = simulation.context.training
        # What clients remember is part of what they train on, so it comes before their batches are drawn.
        memories = {
            client: recalled(simulation, client, self.states.load(client))[0]
            for client in (clients if simulation.recalls else ())
        }
        skipped = {
            client
            for client in (clients if training.single_class == "skip" else ())
            if not simulation.loss.learns_from(simulation.loss_counts(client))
        }
        together = [client for client in clients if client not in skipped]
        done: dict[int, tuple[Update, Vectors]] = {}
        if self._serial is None and together:
            context = simulation.context_in(broadcast.round)
            cohort = Cohort.plan(simulation, context, together, self.steps.exact)
            if self.steps.has_buffers and not cohort.equal:
                self._warn("batch normalization needs batches of equal size")
            else:
                try:
                    done = self._train_cohort(cohort, context, broadcast)
                except Exception as error:
                    self._serial = reason_of(error)
                    if self._serial is None:
                        raise
        if self._serial is not None:
            self._warn(self._serial)
        for client in clients:
            if client in done:
                update, state = done.pop(client)
                state = state | kept(simulation, client, memories.get(client, Recalled()))
                if simulation.compress is not None:
                    update, state = as_sent(simulation, update, broadcast, self.states.load(client), state)
                    # No network carries it here.
                    update.packed = {}
                self.states.save(client, broadcast.round, state)
                yield update
            else:
                yield train_and_keep(simulation, self.states, client, broadcast)

    def _train_cohort(
        self, cohort: Cohort, context: RoundContext, broadcast: Broadcast
    ) -> dict[int, tuple[Update, Vectors]]:
        simulation, model, start = cohort.simulation, self.simulation.model, broadcast.weights
        with torch.random.fork_rng(devices=[]):
            begun = self._begin(cohort, context, broadcast) if self._needs_clients else []
            clients = [one.client for one in begun]
            model.load(start)
            model.module.train()
            starts = [one.start or start for one in begun] or [start] * len(cohort)
            weights = Weights(*(torch.stack(rows) for rows in zip(*map(_vectors, starts), strict=True)))
            inputs = self._inputs(cohort, broadcast, weights, clients)
            networks = {name: n.features for name, n in clients[0].networks.items()} if clients else {}
            with _noting(cohort.clients, broadcast.round):
                taken = self.steps.take(cohort, context, inputs, networks, weights.parameters)
            results = {}
            for k, client in enumerate(cohort.clients):
                own, finished = Weights(*(vector[k] for vector in weights.vectors().values())), Finished()
                if clients:
                    model.load(own)
                    clients[k].steps_taken = cohort.steps[k]
                    clients[k].moments = {name: moment[k] for name, moment in taken.moments.items()}
                    torch.set_rng_state(begun[k].stream)
                    with noting(client, broadcast.round):
                        finished = simulation.method.finish(clients[k])
                    own = model.weights.copy()
                update = Update(
                    client,
                    simulation.federation.size(client),
                    own.to("cpu"),
                    {name: value.detach().cpu() for name, value in finished.uploads.items()},
                    cohort.steps[k],
                    taken.before[k],
                    taken.after[k],
                    round(taken.forwards * cohort.samples[k]) + (clients[k].forwards if clients else 0),
                    round(taken.backwards * cohort.samples[k]) + (clients[k].backwards if clients else 0),
                )
                results[client] = update, finished.state
        return results

    def _begin(self, cohort: Cohort, context: RoundContext, broadcast: Broadcast) -> list[Begun]:
        """The clients after the method's `begin`."""
        simulation, begun = cohort.simulation, []
        for client, steps in zip(cohort.clients, cohort.steps, strict=True):
            with global_stream(simulation.model.device, context.seed, "model", broadcast.round, client):
                simulation.model.load(broadcast.weights)
                simulation.model.module.train()
                _, state = recalled(simulation, client, self.states.load(client))
                client_context = make_client_context(simulation, context, client, broadcast, state, steps)
                with noting(client, broadcast.round):
                    simulation.method.begin(client_context)
                own = simulation.model.weights.copy() if simulation.method.own_start else None
                begun.append(Begun(client_context, torch.get_rng_state(), own))
        return begun

    def _inputs(
        self, cohort: Cohort, broadcast: Broadcast, weights: Weights, clients: Sequence[ClientContext]
    ) -> Inputs:
        """What the cohort's steps read besides their weights and batches."""
        simulation, device = cohort.simulation, self.simulation.model.device
        training, counts = simulation.context.training, cohort.loss_counts
        mine, alike = prepared_by(clients, cohort.longest)
        decay: tuple[Tensor, ...] = ()
        if training.single_class == "no_decay" and training.weight_decay:
            learns = torch.tensor([simulation.loss.learns_from(row) for row in counts]).to(counts)
            decay = ((learns * training.weight_decay).to(device),)
        buffers = {"float_buffers": weights.float_buffers, "int_buffers": weights.int_buffers}
        own = Own(
            id=torch.tensor(cohort.clients).to(device),
            size=torch.tensor([len(rows) for rows in cohort.rows]).to(device),
            steps=torch.tensor(cohort.steps).to(device),
            counts=cohort.counts.to(device),
            terms=self._terms(counts).to(device),
            buffers={name: value for name, value in buffers.items() if value.numel()},
            weight_decay=decay,
            prepared=mine,
            moments={},
        )
        return Inputs(own, Common(broadcast.weights.vectors(), broadcast.shared, alike))

    def _terms(self, counts: Tensor) -> Tensor:
        """The loss's terms of every client's counts; once, checked against those of the first row alone."""
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


def _vectors(weights: Weights) -> tuple[Tensor, ...]:
    return tuple(weights.vectors().values())


@contextmanager
def _noting(clients: Sequence[int], round: int) -> Iterator[None]:
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
