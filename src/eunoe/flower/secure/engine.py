"""The server's engine under secure aggregation: the four stages of a round, each with its own timeout.

A client that does not reply in the first two stages is out of the round at no cost. One that is lost after
them is removed from the masks by what the others reveal, and its update is in the sum if it had arrived.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from flwr.app import RecordDict

from eunoe.engines.simulation import Simulation
from eunoe.errors import RunFailed
from eunoe.flower.engine import RemoteEngine
from eunoe.flower.layout import Form
from eunoe.flower.own_data import encode_facts
from eunoe.flower.secure.messages import (
    decode_bytes,
    decode_keys,
    encode_bytes,
    encode_clients,
    encode_keys,
    encode_session,
)
from eunoe.flower.secure.primitives import BadShares, Words
from eunoe.flower.secure.protocol import PublicKeys, Session, as_words, unmask
from eunoe.flower.wire import decode_declared, encode_broadcast, one_line
from eunoe.server.aggregator import Aggregator
from eunoe.server.secure_sum import SecureSum, check_threshold
from eunoe.server.updates import Broadcast

T = TypeVar("T")
# Shares, plain or encrypted, by the client that sent them and the client that they are for or of.
Shares = dict[int, dict[int, bytes]]


class SecureRemoteEngine(RemoteEngine):
    """Clients train on their own machines, and the server learns only the sum of their updates."""

    def secure_sum(
        self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast, aggregator: Aggregator
    ) -> SecureSum:
        assert simulation.secure is not None
        session = Session(self.run, broadcast.round, simulation.secure.threshold)
        stages = Stages(self, session, clients)
        keys = stages.collect_keys()
        sealed = stages.collect_shares(keys)
        peers = {client: keys[client] for client in sealed}
        total = np.zeros(simulation.secure.fixed_point.size, np.uint64)
        alive = []
        for client, vector, keeps_state in stages.collect_vectors(peers, broadcast, len(total)):
            total += vector
            alive.append(client)
            if keeps_state:
                self.states.pending.add((client, broadcast.round))
        stages.require_enough(alive)
        revealed = stages.reveal(peers, alive, sealed)
        try:
            words = unmask(session, total, peers, alive, revealed)
        except BadShares as error:
            raise RunFailed(f"secure aggregation: round {broadcast.round} failed: {error}") from None
        summed = [client for client in clients if client in set(alive)]
        return SecureSum(torch.from_numpy(words.view(np.int64)), summed, stages.dropped)


class Stages:
    """The messages of a round, and the reasons why clients dropped out of it."""

    def __init__(self, engine: RemoteEngine, session: Session, clients: Sequence[int]) -> None:
        self.engine, self.session, self.clients = engine, session, clients
        self.dropped: dict[int, str] = {}

    def collect_keys(self) -> dict[int, PublicKeys]:
        """Collect the public keys of the clients."""

        def read(client: int, content: RecordDict) -> PublicKeys:
            return decode_keys(content.config_records["keys"])[client]

        keys = dict(self._ask("query.keys", self.clients, lambda client: {}, read, self.dropped))
        self.require_enough(keys)
        return dict(sorted(keys.items()))

    def collect_shares(self, keys: dict[int, PublicKeys]) -> Shares:
        """Collect the encrypted shares that each client sends to each."""

        def read(client: int, content: RecordDict) -> dict[int, bytes]:
            sealed = decode_bytes(content.config_records["sealed"])
            if set(sealed) != set(keys):
                raise ValueError("it has no shares for some clients")
            return sealed

        record = {"keys": encode_keys(keys)}
        shares = dict(self._ask("query.shares", list(keys), lambda client: record, read, self.dropped))
        self.require_enough(shares)
        return dict(sorted(shares.items()))

    def collect_vectors(
        self, peers: dict[int, PublicKeys], broadcast: Broadcast, size: int
    ) -> Iterator[tuple[int, Words, bool]]:
        """Train the clients; yield their masked vectors as they arrive, and whether they keep a state."""
        common = encode_broadcast(broadcast) | encode_facts(self.engine.facts)
        common |= {"peers": encode_clients(peers)}

        def message(client: int) -> RecordDict:
            return self.engine.message(client, broadcast, common)

        def read(client: int, content: RecordDict) -> tuple[Words, bool]:
            vector = decode_declared(content.array_records["masked"], {"sum": Form(size, ("int64",))})["sum"]
            return as_words(vector.numpy()), bool(content.metric_records["numbers"]["keeps_state"])

        # In the order of the round, as without masks.
        clients = [client for client in self.clients if client in peers]
        for client, (vector, keeps_state) in self._ask("train.masked", clients, message, read, self.dropped):
            yield client, vector, keeps_state

    def reveal(self, peers: Iterable[int], alive: Sequence[int], sealed: Shares) -> Shares:
        """Collect the shares of all peers, from as many clients as the threshold requires."""

        def message(client: int) -> dict[str, Any]:
            received = {sender: sealed[sender][client] for sender in peers}
            return {"alive": encode_clients(alive), "sealed": encode_bytes(received)}

        def read(client: int, content: RecordDict) -> dict[int, bytes]:
            return decode_bytes(content.config_records["shares"])

        revealed: Shares = {}
        silent: dict[int, str] = {}
        for client, shares in self._ask("query.unmask", alive, message, read, silent):
            revealed[client] = shares
            if len(revealed) == self.session.threshold:
                return revealed
        check_threshold(len(revealed), len(self.clients), self.session.threshold, self.session.round, silent)
        return revealed

    def require_enough(self, left: Iterable[int]) -> None:
        """Raise RunFailed if too few clients are left."""
        least = max(self.session.threshold, min(self.engine.quorum, len(self.clients)))
        check_threshold(len(list(left)), len(self.clients), least, self.session.round, self.dropped)

    def _ask(
        self,
        kind: str,
        clients: Sequence[int],
        message: Callable[[int], Mapping[str, Any]],
        read: Callable[[int, RecordDict], T],
        dropped: dict[int, str],
    ) -> Iterator[tuple[int, T]]:
        """Yield the replies that can be read, as they arrive; note in `dropped` why the others cannot."""
        session, timeout, replied = encode_session(self.session), self.engine.timeout, set[int]()

        def content(client: int) -> RecordDict:
            return RecordDict({"session": session, **message(client)})

        for client, reply in self.engine.roster.ask(kind, clients, content, timeout):
            replied.add(client)
            if reply.has_error():
                dropped[client] = self.engine.states.explain_failure(client, reply.error.reason)
                continue
            try:
                value = read(client, reply.content)
            except Exception as error:  # Another party's bytes may fail to parse in any way.
                dropped[client] = one_line(f"its reply cannot be read: {error}")
            else:
                yield client, value
        for client in set(clients) - replied:
            dropped[client] = f"it did not reply within {timeout:g} s"
