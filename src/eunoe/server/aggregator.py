"""Aggregation of a round: each update is checked, then added to the sums that the server aggregates.

Updates are added in the order in which they come: at once if their norms pass by the medians of the last
rounds. Any other is held, with all that come after it, until the norms of its round are known: at the end, or
when HELD bytes are held. In round 1, without medians, all are held.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from eunoe.server import update_checks
from eunoe.server.aggregate import Aggregate
from eunoe.server.updates import Limits, Update

# Bytes of updates that are held before a decision is made on them.
HELD = 2**28


class Examined(NamedTuple):
    """An update, the norms and bytes of its vectors, and why it is not added.

    Before the decision on the update, `problem` covers only what does not depend on other updates.
    """

    update: Update
    norms: dict[str, float]
    bytes: int
    problem: str | None

    @property
    def norm(self) -> float:
        """The norm of the change."""
        return self.norms.get("change", 0.0)


class Aggregator:
    """Checks the updates of a round and adds those that can be used to an aggregate."""

    def __init__(
        self,
        aggregate: Aggregate,
        *,
        contribution: Callable[[Tensor, Mapping[str, Tensor]], Tensor],
        explained_norms: Callable[[float, int], dict[str, float]],
        past: Mapping[str, Sequence[update_checks.NormStats]] | None = None,
        limits: Callable[[int], Limits] | None = None,
        variances: Tensor | None = None,
    ) -> None:
        """Start a round.

        `contribution` gives what a client adds to the mean from its change and uploads; `explained_norms`
        the norms of uploads that a change of this norm and number of steps explains; `past` the medians of
        the last rounds; `limits` what is known about a client; `variances` is a mask of the float buffers.
        """
        self.aggregate, self.contribution, self.limits = aggregate, contribution, limits
        self._variances, self._explained_norms = variances, explained_norms
        self.past = {name: update_checks.Norms(stats).stats() for name, stats in (past or {}).items()}
        vectors = update_checks.linear_vectors(aggregate.start, variances)
        self._start = {name: value.double() for name, value in vectors.items()}
        self._floors = update_checks.floors_of(self._start)
        self._held: list[Examined] = []
        self._bytes = 0
        # Norms by vector and client, with the client's steps.
        self._norms: dict[str, dict[int, tuple[float, float]]] = {}

    def receive(self, update: Update) -> Iterator[Examined]:
        """Take an update and yield those that are settled by now, in the order in which they came."""
        problem = self.problem(update)
        if self.aggregate.clips:
            # Clipping bounds every norm, and one client must not decide whether another one counts.
            yield Examined(update, {"change": self.add(update)} if problem is None else {}, 0, problem)
            return
        norms = {}
        if problem is None:
            norms = update_checks.moved_norms(update, self._start, self.aggregate.uploads, self._variances)
        for name, norm in norms.items():
            self._norms.setdefault(name, {})[update.client] = norm, float(update.steps)
        vectors = (*update.weights.vectors().values(), *update.uploads.values())
        examined = Examined(update, norms, sum(value.nbytes for value in vectors), problem)
        if not self._held and (problem is not None or self._passes_by_past(examined)):
            yield self._settle(examined)
            return
        self._held.append(examined)
        self._bytes += examined.bytes
        if self._bytes > HELD:
            yield from self.settle()

    def settle(self) -> Iterator[Examined]:
        """Decide on the held updates by the norms that are known, and add them."""
        self._bytes = 0
        held, self._held = self._held[::-1], []
        norms = {name: update_checks.Norms(by_client.values()) for name, by_client in self._norms.items()}
        while held:
            examined = held.pop()
            if examined.problem is None:
                own, steps = examined.norms, float(examined.update.steps)
                others = {name: norms[name].stats_without(norm, steps) for name, norm in own.items()}
                examined = examined._replace(problem=self._norm_problem(examined, others))
            yield self._settle(examined)

    def _settle(self, examined: Examined) -> Examined:
        if examined.problem is None:
            self.add(examined.update)
        return examined

    def norm_stats(self) -> dict[str, update_checks.NormStats | None]:
        """Return the medians of the updates that were added, by vector."""
        added = set(self.aggregate.clients)
        return {
            name: update_checks.Norms(pair for client, pair in by_client.items() if client in added).stats()
            for name, by_client in self._norms.items()
        }

    def add(self, update: Update) -> float:
        """Add an update and return the norm of its change."""
        change = update_checks.change_of(update.weights.parameters, self._start["parameters"])
        norm = float(torch.linalg.vector_norm(change))
        change = self.contribution(change, update.uploads)
        self.aggregate.add(update.client, update.size, update.weights, change, update.uploads)
        return norm

    def problem(self, update: Update) -> str | None:
        """Return why an update cannot be used whatever the others are, or None."""
        if update.skipped is not None:
            return update.skipped
        limits = None if self.limits is None else self.limits(update.client)
        return update_checks.form_problem(
            update, self.aggregate.start, self.aggregate.uploads, limits, self._variances
        )

    def _passes_by_past(self, examined: Examined) -> bool:
        """Return whether the last rounds alone allow these norms; a vector that never moved has no median."""
        known = all(self.past.get(name) is not None for name, norm in examined.norms.items() if norm > 0)
        return known and self._norm_problem(examined, {}) is None

    def _norm_problem(
        self, examined: Examined, others: Mapping[str, update_checks.NormStats | None]
    ) -> str | None:
        steps = examined.update.steps
        explained = self._explained_norms(examined.norm, steps)
        floors = self._floors | {name: update_checks.Floor(norm) for name, norm in explained.items()}
        return update_checks.norm_problem(
            examined.norms, steps, others, self.past, floors, self.aggregate.uploads
        )
