"""A round whose updates never come to the driver: workers check them, summers add them, slice by slice.

The driver gets the numbers that decide on an update (norms, samples, steps), tells the summers which to add,
and takes the sums at the end. So its traffic is one model and a few numbers per client, not a model per
client. If a summer or a slice that was not added yet is lost with its node, the round begins again, with the
same bits.
"""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import torch
from torch import Tensor

from eunoe.engines.client_states import ClientStates
from eunoe.engines.ray.cluster import Cluster
from eunoe.engines.ray.packing import pack, unpack
from eunoe.engines.ray.slices import Summer, concatenate_sums
from eunoe.errors import RunFailed
from eunoe.server.aggregator import Aggregator, Examined, Settled
from eunoe.server.updates import Broadcast

logger = logging.getLogger(__name__)

_ATTEMPTS = 3
# Groups of clients per summer that wait to be added, so that few are stored at a time.
_WAITING = 4


class Summing:
    """Trains groups of clients and has their updates added up on the cluster."""

    def __init__(self, states: ClientStates, cluster: Cluster, parts: int) -> None:
        self.states, self.cluster, self.parts = states, cluster, parts
        self._summers: list[Any] = []

    def aggregate(
        self, groups: Sequence[Sequence[int]], broadcast: Broadcast, aggregator: Aggregator
    ) -> Iterator[Settled]:
        """Train these groups of clients, check their updates and take the sums into the aggregate."""
        for _ in range(_ATTEMPTS):
            try:
                settled = self._round(groups, broadcast, aggregator)
            except self.cluster.lost as error:
                logger.warning("restarting round %d: %s", broadcast.round, str(error).splitlines()[0])
                self.close()
                aggregator.restart()
                last = error
            else:
                yield from settled
                return
        raise RunFailed(f"the sums of a round were lost {_ATTEMPTS} times: {last}") from last

    def _round(
        self, groups: Sequence[Sequence[int]], broadcast: Broadcast, aggregator: Aggregator
    ) -> list[Settled]:
        # An attempt that was lost has taken its workers along.
        self.cluster.hire()
        self._summers = self._summers or self.cluster.spread(Summer, self.parts)
        message, how = self.cluster.put(broadcast), aggregator.aggregate.summed
        for summer in self._summers:
            summer.begin.remote([message], how)
        slices: dict[int, list[Any]] = {}

        def submit(actor: Any, number: int) -> Any:
            states = pack([self.states.load(client) for client in groups[number]])
            train = actor.train_sliced.options(num_returns=self.parts + 1)
            answer, *slices[number] = train.remote([message], groups[number], states, self.parts)
            return answer

        order = _Order(self._summers, slices)
        settled: list[Settled] = []
        # Closed even if something is lost, so that workers do not go on with this attempt.
        with closing(self.cluster.in_order(len(groups), submit)) as results:
            for number, group in enumerate(results):
                order.add_group(number, [examined for examined, _ in group])
                for examined, state in group:
                    self.states.save(examined.update.client, broadcast.round, state)
                    settled += order.follow(aggregator.decide(examined))
        settled += order.follow(aggregator.decide_held())
        order.wait()
        self._take(aggregator, [entry for entry in settled if entry.problem is None])
        return settled

    def _take(self, aggregator: Aggregator, added: Sequence[Settled]) -> None:
        if not added:
            return
        results = [summer.result.remote() for summer in self._summers]
        parts = [unpack(part) for part in self.cluster.get(results)]
        counters: Tensor = aggregator.aggregate.start.int_buffers
        for entry in added:
            counters = torch.maximum(counters, entry.update.weights.int_buffers)
        clients = [entry.update.client for entry in added]
        aggregator.aggregate.take(clients, *concatenate_sums(parts), counters)

    def close(self) -> None:
        """Stop the summers."""
        for summer in self._summers:
            self.cluster.stop(summer)
        self._summers = []


class _Order:
    """Tells the summers what to add, group by group, as soon as all clients of a group are decided on."""

    def __init__(self, summers: Sequence[Any], slices: dict[int, list[Any]]) -> None:
        self.summers, self.slices = summers, slices
        # The groups that are not decided on, each with its number of undecided clients and the rows to add.
        self._groups: deque[tuple[int, list[int], list[tuple[int, int]]]] = deque()
        self._rows: dict[int, int] = {}
        self._waiting: deque[list[Any]] = deque()

    def add_group(self, number: int, group: Sequence[Examined]) -> None:
        """Take a group, whose usable updates have a row each."""
        usable = [examined.update.client for examined in group if examined.problem is None]
        self._rows |= {client: row for row, client in enumerate(usable)}
        self._groups.append((number, [len(group)], []))

    def follow(self, decisions: Iterator[Settled]) -> Iterator[Settled]:
        """Yield decisions, which come in the order of the clients, and have summers add what they decide."""
        for settled in decisions:
            number, left, rows = self._groups[0]
            row = self._rows.pop(settled.update.client, None)
            if settled.problem is None and row is not None:
                rows.append((row, settled.update.size))
            left[0] -= 1
            if not left[0]:
                self._groups.popleft()
                pairs = zip(self.summers, self.slices.pop(number), strict=True)
                self._waiting.append([summer.add.remote([part], rows) for summer, part in pairs])
                self.wait(_WAITING)
            yield settled

    def wait(self, most: int = 0) -> None:
        """Wait until at most so many groups are still to be added."""
        import ray

        while len(self._waiting) > most:
            ray.get(self._waiting.popleft())
