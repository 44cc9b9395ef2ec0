"""Aggregation of a round: each update is checked, then added to the sums that the server aggregates.

Updates are added in the order in which they come. One whose norm is usual by the last rounds is added at
once; another one is held, and all that come after it, until the norms of its round are known: at the end,
or when HELD bytes are held. So it is in round 1, where nothing is known yet.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from eunoe.core.flat_model import Weights
from eunoe.engines.client import Update
from eunoe.engines.simulation import Limits
from eunoe.engines.update_checks import (
    Floor,
    Others,
    Usual,
    change_of,
    floors_of,
    form_problem,
    moved_norms,
    norm_problem,
    usual,
)
from eunoe.methods.base import Method
from eunoe.methods.context import RoundContext
from eunoe.server.aggregate import Aggregate
from eunoe.server.privacy import PrivateAggregate, seeded_normal, system_normal

# Bytes of updates that are held at most before those that have come decide.
HELD = 2**28


class Settled(NamedTuple):
    """An update that is added, with the norm of its change, or why it is not."""

    update: Update
    norm: float
    problem: str | None


class Examined(NamedTuple):
    """An update, its norms, the bytes of its vectors, and why it cannot be used whatever the others are."""

    update: Update
    norms: dict[str, float]
    bytes: int
    problem: str | None


class Aggregator:
    """Checks the updates of a round and adds those that can be used to an aggregate."""

    def __init__(
        self,
        method: Method,
        start: Weights,
        context: RoundContext,
        past: Mapping[str, Sequence[Usual]] | None = None,
        limits: Callable[[int], Limits] | None = None,
        shared: Mapping[str, Tensor] | None = None,
    ) -> None:
        """`past` has the usual norms of the last rounds; `limits` what is known of a client.

        `shared` is what clients were sent besides the weights.
        """
        self.context, self.shared = context, shared or {}
        self.method, self.start, self.limits = method, start, limits
        self.past = {name: usual(found) for name, found in (past or {}).items()}
        self.aggregate = empty_aggregate(method, start, context)
        self._start = {name: value.double() for name, value in start.vectors().items()}
        self._floors = floors_of(start)
        self.restart()

    def restart(self) -> None:
        """Forget the updates that have come; none must have been added."""
        self._held: list[Examined] = []
        self._bytes = 0
        # Norms by vector and client, with the client's steps.
        self._norms: dict[str, dict[int, tuple[float, float]]] = {}

    def receive(self, update: Update) -> Iterator[Settled]:
        """Take an update, and give those that are settled by now, in the order in which they came."""
        if self.context.privacy is not None:
            # Clipping bounds every norm, and one client must not decide whether another one counts.
            problem = self.problem(update)
            yield Settled(update, 0.0 if problem else self.add(update), problem)
            return
        yield from self._added(self.decide(self.examined(update)))

    def settle(self) -> Iterator[Settled]:
        """Decide on the updates that are held by the norms that are known, and add them."""
        yield from self._added(self.decide_held())

    def examined(self, update: Update) -> Examined:
        """What is to be known of an update to decide on it; its vectors are not needed then."""
        problem = self.problem(update)
        norms = {} if problem else moved_norms(update, self._start, self.aggregate.uploads)
        vectors = (*update.weights.vectors().values(), *update.uploads.values())
        return Examined(update, norms, sum(value.numel() * value.itemsize for value in vectors), problem)

    def decide(self, examined: Examined) -> Iterator[Settled]:
        """Take an update, and give those that are decided on by now, which are still to be added."""
        for name, norm in examined.norms.items():
            self._norms.setdefault(name, {})[examined.update.client] = norm, float(examined.update.steps)
        self._held.append(examined)
        if len(self._held) == 1 and (examined.problem is not None or self._usual_before(examined)):
            self._held.clear()
            yield _decided(examined, examined.problem)
            return
        self._bytes += examined.bytes
        if self._bytes > HELD:
            yield from self.decide_held()

    def decide_held(self) -> Iterator[Settled]:
        """Decide on the updates that are held by the norms that are known."""
        self._bytes = 0
        held, self._held = self._held[::-1], []
        others = {name: Others(found.values()) for name, found in self._norms.items()}
        while held:
            examined = held.pop()
            problem = examined.problem
            if problem is None:
                steps = float(examined.update.steps)
                usual_now = {name: others[name].without(norm, steps) for name, norm in examined.norms.items()}
                problem = self._norm_problem(examined, usual_now)
            yield _decided(examined, problem)

    def _added(self, decided: Iterator[Settled]) -> Iterator[Settled]:
        for settled in decided:
            if settled.problem is None:
                self.add(settled.update)
            yield settled

    def usual(self) -> dict[str, Usual | None]:
        """What was usual among the updates that were added."""
        added = set(self.aggregate.clients)
        return {
            name: usual(pair for client, pair in found.items() if client in added)
            for name, found in self._norms.items()
        }

    def add(self, update: Update) -> float:
        """Add an update; returns the norm of its change."""
        change = change_of(update.weights.parameters, self._start["parameters"])
        norm = float(torch.linalg.vector_norm(change))
        change = self.method.contribution(change, update.uploads)
        self.aggregate.add(update.client, update.size, update.weights, change, update.uploads)
        return norm

    def problem(self, update: Update) -> str | None:
        """Why an update cannot be used whatever the others are, or None."""
        if update.skipped is not None:
            return update.skipped
        known = None if self.limits is None else self.limits(update.client)
        return form_problem(update, self.start, self.aggregate.uploads, *(known or (None, None)))

    def _usual_before(self, examined: Examined) -> bool:
        """Whether the last rounds alone say that this is usual; a vector that never moved says nothing."""
        known = all(self.past.get(name) is not None for name, norm in examined.norms.items() if norm > 0)
        return known and self._norm_problem(examined, {}) is None

    def _norm_problem(self, examined: Examined, others: Mapping[str, Usual | None]) -> str | None:
        uploads, steps = self.aggregate.uploads, examined.update.steps
        explained = self.method.explained_norms(
            examined.norms.get("change", 0.0), steps, self.shared, self.context
        )
        floors = self._floors | {name: Floor(norm) for name, norm in explained.items()}
        return norm_problem(examined.norms, steps, others, self.past, floors, uploads)


def _decided(examined: Examined, problem: str | None) -> Settled:
    return Settled(examined.update, examined.norms.get("change", 0.0), problem)


def empty_aggregate(method: Method, start: Weights, context: RoundContext) -> Aggregate:
    """The sums that a round's updates are added to."""
    uploads, privacy = method.uploads(context), context.privacy
    if privacy is not None:
        normal = system_normal if context.secret else seeded_normal(context.seed, context.round)
        return PrivateAggregate(start, uploads, privacy, context.participants, normal)
    derived = context.server_optimizer.derived()
    return Aggregate(start, method.weighting, uploads, derived, method.keeps_models, context.aggregation)
