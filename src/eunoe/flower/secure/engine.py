"""The server's engine under secure aggregation: the four stages of a round, each with its own time limit.

A client that does not answer in the first two stages is out of the round at no cost. One that is lost after
them is taken out of the masks by what the others reveal, and its update is in the sum if it had arrived.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from flwr.app import RecordDict

from eunoe.engines.client import Broadcast
from eunoe.engines.secure_sum import SecureSum, enough
from eunoe.engines.simulation import Simulation
from eunoe.errors import RunFailed
from eunoe.flower.engine import ClientValidation, Remote, RemoteStates, RemoteTrainer
from eunoe.flower.own_data import facts_out
from eunoe.flower.secure.messages import (
    bytes_in,
    clients_out,
    keys_in,
    keys_out,
    sealed_out,
    session_out,
)
from eunoe.flower.secure.primitives import BadShares
from eunoe.flower.secure.protocol import PublicKeys, Session, as_words, unmasked
from eunoe.flower.wire import Form, Order, broadcast_out, declared_in, one_line, order_out

T = TypeVar("T")


class SecureRemote(Remote):
    """Clients train on their own machines, and the server learns the sum of their updates only."""

    def __init__(
        self,
        simulation: Simulation,
        states: RemoteStates,
        trainer: RemoteTrainer,
        validation: ClientValidation | None = None,
    ) -> None:
        super().__init__(simulation, states, trainer, validation)
        self.remote, self.kept = trainer, states.kept

    def train_summed(self, clients: Sequence[int], broadcast: Broadcast) -> SecureSum:
        simulation = self.simulation
        assert simulation.fixed_point is not None
        session = Session(self.remote.run, broadcast.round, simulation.threshold)
        stages = Stages(self.remote, session, clients)
        keys = stages.keys()
        sealed = stages.shares(keys)
        peers = {client: keys[client] for client in sealed}
        total = np.zeros(simulation.fixed_point.size, np.uint64)
        alive = []
        for client, vector, keeps in stages.masked(peers, broadcast, len(total)):
            total += vector
            alive.append(client)
            if keeps:
                self.kept.add((client, broadcast.round))
        stages.check(alive)
        revealed = stages.reveal(peers, alive, sealed)
        try:
            words = unmasked(session, total, peers, alive, revealed)
        except BadShares as error:
            raise RunFailed(f"secure aggregation: round {broadcast.round} failed: {error}") from None
        there = [client for client in clients if client in set(alive)]
        return SecureSum(torch.from_numpy(words.view(np.int64)), there, stages.dropped)


class Stages:
    """The messages of a round, and why clients dropped out of it."""

    def __init__(self, remote: RemoteTrainer, session: Session, clients: Sequence[int]) -> None:
        self.remote, self.session, self.clients = remote, session, clients
        self.dropped: dict[int, str] = {}

    def keys(self) -> dict[int, PublicKeys]:
        """The public keys of the clients that are there."""

        def read(client: int, content: RecordDict) -> PublicKeys:
            return keys_in(content.config_records["keys"])[client]

        found = dict(self._ask("query.keys", self.clients, lambda client: {}, read))
        self.check(found)
        return dict(sorted(found.items()))

    def shares(self, keys: dict[int, PublicKeys]) -> dict[int, dict[int, bytes]]:
        """What each client sends to each, encrypted, by sender."""

        def read(client: int, content: RecordDict) -> dict[int, bytes]:
            sealed = bytes_in(content.config_records["sealed"])
            if set(sealed) != set(keys):
                raise ValueError("it has no shares for some clients")
            return sealed

        record = {"keys": keys_out(keys)}
        found = dict(self._ask("query.shares", list(keys), lambda client: record, read))
        self.check(found)
        return dict(sorted(found.items()))

    def masked(
        self, peers: dict[int, PublicKeys], broadcast: Broadcast, size: int
    ) -> Iterator[tuple[int, Any, bool]]:
        """The masked vectors as they arrive, and whether their clients keep a state."""
        common = broadcast_out(broadcast) | facts_out(self.remote.facts) | {"peers": clients_out(peers)}

        def message(client: int) -> dict[str, Any]:
            order = Order(self.remote.run, self.remote.states.accepted.get(client))
            return {**common, "order": order_out(order, broadcast.round)}

        def read(client: int, content: RecordDict) -> tuple[Any, bool]:
            vector = declared_in(content.array_records["masked"], {"sum": Form(size, ("int64",))})["sum"]
            return as_words(vector.numpy()), bool(content.metric_records["numbers"]["keeps_state"])

        # In the order of the round, as without masks.
        there = [client for client in self.clients if client in peers]
        for client, (vector, keeps) in self._ask("train.masked", there, message, read):
            yield client, vector, keeps

    def reveal(
        self, peers: Iterable[int], alive: Sequence[int], sealed: dict[int, dict[int, bytes]]
    ) -> dict[int, dict[int, bytes]]:
        """What clients reveal of all peers, by client, from as many of them as it takes."""

        def message(client: int) -> dict[str, Any]:
            received = {sender: sealed[sender][client] for sender in peers}
            return {"alive": clients_out(alive), "sealed": sealed_out(received)}

        def read(client: int, content: RecordDict) -> dict[int, bytes]:
            return bytes_in(content.config_records["shares"])

        found: dict[int, dict[int, bytes]] = {}
        silent: dict[int, str] = {}
        for client, shares in self._ask("query.unmask", alive, message, read, silent):
            found[client] = shares
            if len(found) == self.session.threshold:
                return found
        enough(len(found), len(self.clients), self.session.threshold, self.session.round, silent)
        return found

    def check(self, left: Iterable[int]) -> None:
        """Raise RunFailed if too few clients are left."""
        least = max(self.session.threshold, min(self.remote.quorum, len(self.clients)))
        enough(len(list(left)), len(self.clients), least, self.session.round, self.dropped)

    def _ask(
        self,
        kind: str,
        clients: Sequence[int],
        message: Callable[[int], dict[str, Any]],
        read: Callable[[int, RecordDict], T],
        dropped: dict[int, str] | None = None,
    ) -> Iterator[tuple[int, T]]:
        """The answers that can be read, as they arrive; of the others why not."""
        dropped, answered = self.dropped if dropped is None else dropped, set[int]()
        session, timeout = session_out(self.session), self.remote.timeout

        def content(client: int) -> RecordDict:
            return RecordDict({"session": session, **message(client)})

        for client, reply in self.remote.roster.ask(kind, clients, content, timeout):
            answered.add(client)
            if reply.has_error():
                dropped[client] = self.remote.states.failed(client, reply.error.reason)
                continue
            try:
                value = read(client, reply.content)
            except Exception as error:  # Another party's bytes may fail to parse in any way.
                dropped[client] = one_line(f"its answer cannot be read: {error}")
            else:
                yield client, value
        for client in set(clients) - answered:
            dropped[client] = f"it did not answer within {timeout:g} s"
