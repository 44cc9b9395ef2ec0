"""Which node is which client, and asking clients something with a time-out.

Flower's node numbers are random; a node says which client it is when it is asked. Flower tells which key a
node has proved to have, and where the clients' keys are known it must be that client's. A node that has left
and come back may have lost what it was told, so it is asked again who it is and sent its message again: the
same client in the same round gives the same bits.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from eunoe.errors import RunFailed
from eunoe.flower.wire import one_line

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
# More than any client has; sums over clients stay far from the largest integer.
MOST_SAMPLES = 10**9
# The message or its answer got lost on the way; the client did nothing wrong.
LOST = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)


class Member(NamedTuple):
    """What a client said of itself when it joined."""

    node: int
    size: int
    validates: bool


class Roster:
    """The clients that are connected; `keys` has the public key of each, where nodes are held to theirs."""

    def __init__(
        self,
        grid: Grid,
        clients: int,
        question: RecordDict,
        keys: Mapping[int, bytes] | None = None,
    ) -> None:
        self.grid, self.clients = grid, clients
        self.members: dict[int, Member] = {}
        self._question, self._keys = question, keys
        # Nodes that are online, each with the message that asks it who it is until it has answered.
        self._online: dict[int, str | None] = {}
        # Nodes that are no members, each with the client that it says it is (or -1) and why it is not.
        self._refused: dict[int, tuple[int, str]] = {}

    def refresh(self) -> None:
        """Note who has come and gone; ask newcomers who they are, without waiting for the answer."""
        keys = {node.node_id: node.public_key for node in self.grid.get_nodes()}
        online = set(keys)
        gone = {client for client, member in self.members.items() if member.node not in online}
        for client in gone:
            del self.members[client]
        # Whoever was refused because of a node that has left is asked again, as if it had just come.
        again = {node for node, (client, _) in self._refused.items() if client in gone}
        for node in again:
            del self._refused[node]
        self._online = {node: asked for node, asked in self._online.items() if node in online - again}
        new = sorted(online - set(self._online))
        messages = [Message(self._question, node, "query") for node in new]
        self._online |= dict(zip(new, self.grid.push_messages(messages), strict=True)) if new else {}
        waiting = {asked: node for node, asked in self._online.items() if asked is not None}
        for reply in self.grid.pull_messages(list(waiting)) if waiting else ():
            node = waiting[reply.metadata.reply_to_message_id]
            self._online[node] = None
            self._introduce(node, keys[node], reply)

    def _introduce(self, node: int, key: bytes, reply: Message) -> None:
        client, size, validates = -1, 0, 0
        if reply.has_error():
            if reply.error.code in LOST:
                del self._online[node]  # It is asked again if it is still there.
                return
            problem = f"a node could not join: {one_line(reply.error.reason)}"
        else:
            try:
                said = reply.content.metric_records["numbers"]
                client, size, validates = (int(str(said[name])) for name in ("client", "size", "validates"))
            except (KeyError, ValueError) as error:
                problem = f"a node does not say who it is: {type(error).__name__} {error}"
            else:
                problem = self._objection(client, size, key)
        if problem:
            self._refused[node] = client, problem
            logger.warning(problem)
        else:
            self.members[client] = Member(node, size, bool(validates))
            self._refused.pop(node, None)

    def _objection(self, client: int, size: int, key: bytes) -> str:
        """Why a node cannot be the client that it says it is, or nothing."""
        if client not in range(self.clients):
            return f"a node says that it is client {client}; clients are 0 to {self.clients - 1}"
        if self._keys is not None and key != self._keys[client]:
            return f"a node says that it is client {client} but does not have the key of node-{client}.pub"
        # Without facts the clients have parts of a partition, whose sizes the server knows.
        if "facts" in self._question and not 1 <= size <= MOST_SAMPLES:
            return f"client {client} says that it trains on {size} samples; it must be 1 to {MOST_SAMPLES}"
        if client in self.members:
            return f"two nodes say that they are client {client}; the second is not used"
        return ""

    def wait(self, seconds: float, least: int) -> None:
        """Wait until every client has joined; when the time is over, this many will do."""
        end = time.monotonic() + seconds
        while True:
            self.refresh()
            missing = [str(client) for client in range(self.clients) if client not in self.members]
            if not missing:
                return
            if time.monotonic() >= end:
                break
            time.sleep(POLL_SECONDS)
        reasons = "".join(f"; {problem}" for _, problem in self._refused.values())
        text = f"after {seconds:g} s these clients have not joined: {', '.join(missing)}{reasons}"
        if len(self.members) < least:
            raise RunFailed(text)
        logger.warning(text)

    def ask(
        self, kind: str, clients: Sequence[int], content: Callable[[int], RecordDict], seconds: float
    ) -> Iterator[tuple[int, Message]]:
        """Send each client its message and give the answers as they come, until all or the time is there."""
        end = time.monotonic() + seconds
        missing, sent, asked = set(clients), dict[int, int](), dict[str, int]()
        while missing:
            self.refresh()
            for client in [c for c, node in sent.items() if c in missing and not self._has(c, node)]:
                del sent[client]
            ready = sorted(client for client in missing if client in self.members and client not in sent)
            left = max(1.0, end - time.monotonic())
            messages = [
                Message(content(client), self.members[client].node, kind, ttl=left) for client in ready
            ]
            for client, message in zip(
                ready, self.grid.push_messages(messages) if ready else (), strict=True
            ):
                sent[client] = self.members[client].node
                asked[message] = client
            for reply in self.grid.pull_messages(list(asked)) if asked else ():
                client = asked.pop(reply.metadata.reply_to_message_id)
                if reply.has_error() and reply.error.code in LOST:
                    sent.pop(client, None)
                elif client in missing:
                    missing.remove(client)
                    yield client, reply
            if not missing or time.monotonic() >= end:
                return
            time.sleep(POLL_SECONDS)

    def _has(self, client: int, node: int) -> bool:
        return client in self.members and self.members[client].node == node
