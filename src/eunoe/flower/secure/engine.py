"""The server's engine under secure aggregation: the five stages of a round, each with its own timeout.

A client that does not reply in the first two stages is out of the round at no cost. One that is lost after
them is removed from the masks by what the others reveal, and its update is in the sum if it had arrived.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from flwr.app import RecordDict

from eunoe.engines.simulation import Simulation
from eunoe.errors import RunFailed
from eunoe.flower.engine import RemoteEngine
from eunoe.flower.own_data import encode_facts
from eunoe.flower.secure import messages
from eunoe.flower.secure.primitives import BadShares, Words
from eunoe.flower.secure.protocol import PublicKeys, Session, unmask
from eunoe.flower.wire import Form, decode_declared, encode_broadcast, one_line
from eunoe.server.aggregator import Aggregator
from eunoe.server.secure_sum import SecureSum, check_threshold
from eunoe.server.updates import Broadcast

T = TypeVar("T")
# Make the message to a client, and read its reply.
Write = Callable[[int], Mapping[str, Any]]
Read = Callable[[int, RecordDict], T]


class SecureRemoteEngine(RemoteEngine):
    """The server learns only the sum of its clients' updates; `identity` is the name of the config's run."""

    def __init__(self, identity: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.identity = identity

    def secure_sum(
        self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast, aggregator: Aggregator
    ) -> SecureSum:
        assert simulation.secure is not None
        session = Session(self.identity, broadcast.round, simulation.secure.threshold)
        total = np.zeros(simulation.secure.fixed_point.size, np.uint64)
        stages = Stages(self, session, clients)

        def read_keys(client: int, content: RecordDict) -> PublicKeys:
            return messages.decode_keys(content.config_records["keys"])[client]

        def read_signature(client: int, content: RecordDict) -> bytes:
            return messages.decode_bytes(content.config_records["signature"])[client]

        def read_shares(client: int, content: RecordDict) -> dict[int, bytes]:
            return messages.decode_bytes(content.config_records["shares"])

        def read_sealed(client: int, content: RecordDict) -> dict[int, bytes]:
            shares = messages.decode_bytes(content.config_records["sealed"])
            if set(shares) != set(keys):
                raise ValueError("it has no shares for some clients")
            return shares

        def read_vector(client: int, content: RecordDict) -> tuple[Words, bool]:
            form = {"sum": Form(len(total), ("int64",))}
            vector = decode_declared(content.array_records["masked"], form)["sum"]
            return vector.numpy().view(np.uint64), bool(content.metric_records["numbers"]["keeps_state"])

        def write_sealed(client: int) -> dict[str, Any]:
            # The shares that the others sent for this client.
            received = {sender: shares[client] for sender, shares in sealed.items()}
            return {**agreed, "sealed": messages.encode_bytes(received)}

        keys = stages.collect("query.keys", clients, lambda _: {}, read_keys)
        published = {"keys": messages.encode_keys(keys)}
        sealed = stages.collect("query.shares", list(keys), lambda _: published, read_sealed)
        peers = {client: keys[client] for client in sealed}
        common = RecordDict({**encode_broadcast(broadcast), **encode_facts(self.facts)})
        common["peers"] = messages.encode_clients(peers)
        # In the order of the round, as without masks.
        order, alive = [client for client in clients if client in peers], list[int]()
        message = partial(self.message, broadcast, common)
        for client, (vector, keeps_state) in stages.ask("train.masked", order, message, read_vector):
            total += vector
            alive.append(client)
            if keeps_state:
                self.states.pending.add((client, broadcast.round))
        stages.require_enough(alive)
        arrived = {"alive": messages.encode_clients(alive)}
        signatures = stages.collect_enough("query.confirm", alive, lambda _: arrived, read_signature)
        agreed = {**arrived, "signatures": messages.encode_bytes(signatures)}
        revealed = stages.collect_enough("query.unmask", alive, write_sealed, read_shares)
        try:
            words = unmask(session, total, peers, alive, revealed, messages.broadcast_digest(common))
        except BadShares as error:
            raise RunFailed(f"secure aggregation: round {broadcast.round} failed: {error}") from None
        summed = [client for client in clients if client in set(alive)]
        return SecureSum(torch.from_numpy(words.view(np.int64)), summed, stages.dropped)


class Stages:
    """The exchanges of a round, and the reasons why clients dropped out of it."""

    def __init__(self, engine: RemoteEngine, session: Session, clients: Sequence[int]) -> None:
        self.engine, self.session, self.clients = engine, session, clients
        self.dropped: dict[int, str] = {}

    def collect(self, kind: str, clients: Sequence[int], write: Write, read: Read[T]) -> dict[int, T]:
        """Collect the replies of all clients, by client."""
        replies = dict(sorted(self.ask(kind, clients, write, read)))
        self.require_enough(replies)
        return replies

    def collect_enough(self, kind: str, alive: Sequence[int], write: Write, read: Read[T]) -> dict[int, T]:
        """Collect replies from as many clients as the threshold requires; the others are not dropped."""
        replies, silent = dict[int, T](), dict[int, str]()
        for client, value in self.ask(kind, alive, write, read, silent):
            replies[client] = value
            if len(replies) == self.session.threshold:
                break
        check_threshold(len(replies), len(self.clients), self.session.threshold, self.session.round, silent)
        return replies

    def require_enough(self, left: Collection[int]) -> None:
        """Raise RunFailed if too few clients are left."""
        least = max(self.session.threshold, min(self.engine.quorum, len(self.clients)))
        check_threshold(len(left), len(self.clients), least, self.session.round, self.dropped)

    def ask(
        self,
        kind: str,
        clients: Sequence[int],
        write: Write,
        read: Read[T],
        dropped: dict[int, str] | None = None,
    ) -> Iterator[tuple[int, T]]:
        """Yield the replies that can be read, as they arrive; note in `dropped` why the others cannot."""
        session, timeout, replied = messages.encode_session(self.session), self.engine.timeout, set[int]()
        dropped = self.dropped if dropped is None else dropped

        def content(client: int) -> RecordDict:
            return RecordDict({"session": session, **write(client)})

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
