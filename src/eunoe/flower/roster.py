"""The roster of clients: which node is which client, and messages to clients with a timeout.

Flower's node ids are random; a node replies to a query with its client number. Where clients' keys are known,
it must have authenticated with the key of that client. A node that left and reconnected may have lost its
message, so it is queried and sent its message again: the same client in the same round gives the same bits.

Flower assembles a reply of any size in memory, trusts the reply on which message it answers, and lets an
unreadable reply end the server. Here the connection is guarded: replies have a size limit, belong to the
message that the SuperLink says they answer, and are an error of their node if they cannot be read.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple, cast

import httpx
from flwr.app import Array, Error, Message, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.serverapp import Grid
from flwr.supercore.inflatable import inflatable_object as inflatable
from flwr.supercore.inflatable import inflatable_utils as utils
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.run import Run, RunNotRunningException
from flwr.superlink.grid.http_grid import HttpGrid

from eunoe.errors import RunFailed
from eunoe.flower.wire import MAX_SAMPLES, one_line

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
# Seconds until the first reminder of a wait; each further one comes after twice the time.
REMIND_SECONDS = 30.0
# The message or its reply was lost in transit; the client is not at fault.
LOST = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE, ErrorCode.NODE_UNAVAILABLE)
# Bytes of a reply that carries no model.
SMALL_REPLY = 2**20


class TooLarge(Exception):
    """A reply exceeds the limit."""


class GuardedGrid:
    """A Grid that limits replies to `max_bytes` bytes and receives them one at a time."""

    def __init__(self, grid: HttpGrid, max_bytes: int = SMALL_REPLY) -> None:
        self._grid, self.max_bytes = grid, max_bytes

    def get_nodes(self) -> Iterable[NodeInfo]:
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Return the replies that have arrived; a harmful one becomes an error of its node."""
        answer = self._grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=message_ids))
        pairs = zip(answer.messages_list, answer.message_object_trees, strict=True)
        return [self._receive(message, tree) for message, tree in pairs]

    def _receive(self, message: Any, tree: Any) -> Message:
        code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
        try:
            reply = self._pull(message.metadata.message_id, tree)
            if reply.metadata.reply_to_message_id == message.metadata.reply_to_message_id:
                return reply
            problem = "its reply answers a different message than the one sent to it"
        except (httpx.HTTPError, RunNotRunningException):
            raise
        except TooLarge:
            problem = f"its reply exceeds the limit of {self.max_bytes} bytes"
        except utils.ObjectPullError as error:
            # As Flower reports it: the node did not complete the upload and is asked again.
            code, problem = ErrorCode.MESSAGE_UNAVAILABLE, str(error)
        except Exception as error:  # Another party's bytes may fail to parse in any way.
            problem = f"its reply cannot be read: {type(error).__name__} {error}"
        return make_message(metadata=message_from_proto(message).metadata, error=Error(code, problem))

    def _pull(self, name: str, tree: Any) -> Message:
        """Pull and assemble a reply as Flower's grid does; raise TooLarge before it exceeds the memory."""
        client, node, run = self._grid._runtime_client, self._grid.node, cast(Run, self._grid._run).run_id
        pull = make_pull_object_fn_protobuf(client.PullObject, node, run)
        received, lock = 0, Lock()

        def pull_piece(piece: str) -> bytes:
            nonlocal received
            content = b"" if received > self.max_bytes else pull(piece)
            with lock:
                received += len(content)
            if received > self.max_bytes:
                raise TooLarge
            return content

        pieces = [part.object_id for part in inflatable.iterate_object_tree(tree)]
        contents = utils.pull_objects(pieces, pull_piece)
        received_all = ConfirmMessageReceivedRequest(node=node, run_id=run, message_object_id=name)
        client.ConfirmMessageReceived(received_all)
        if _array_bytes(contents) > self.max_bytes:
            raise TooLarge
        reply = utils.inflate_object_from_contents(name, contents)
        if not isinstance(reply, Message):
            raise TypeError("not a message")
        return reply


def _array_bytes(contents: dict[str, bytes]) -> int:
    """Return the size of a reply's arrays once assembled: they may name a piece many times."""
    total = 0
    for content in filter(None, contents.values()):
        if inflatable.get_object_type_from_object_content(content) == "Array":
            names = inflatable.get_object_children_ids_from_object_content(content)
            indices = json.loads(inflatable.get_object_body(content, Array))["arraychunk_ids"]
            total += sum(len(contents[names[index]]) for index in indices)
    return total


class Member(NamedTuple):
    """What a client reported when it joined."""

    node: int
    size: int
    validates: bool


class Roster:
    """The connected clients. `keys` has the public key required of each, if keys are enforced.

    Nodes that join are sent `question`; `grid` is Flower's connection to the nodes.
    """

    def __init__(
        self,
        grid: Grid | GuardedGrid,
        clients: int,
        question: RecordDict,
        keys: Mapping[int, bytes] | None = None,
    ) -> None:
        self.grid, self.clients = grid, clients
        self.members: dict[int, Member] = {}
        self._question, self._keys = question, keys
        # Online nodes, each with its pending query message until it has answered.
        self._online: dict[int, str | None] = {}
        # Refused nodes, each with the client number it claims (or -1) and the reason.
        self._refused: dict[int, tuple[int, str]] = {}

    def refresh(self) -> None:
        """Update which nodes joined and left; query new nodes without waiting for their replies."""
        keys = {node.node_id: node.public_key for node in self.grid.get_nodes()}
        gone = {client for client, member in self.members.items() if member.node not in keys}
        for client in gone:
            del self.members[client]
        # A node that was refused because of one that has left is queried again, as if it had just joined.
        again = {node for node, (client, _) in self._refused.items() if client in gone}
        for node in again:
            del self._refused[node]
        self._online = {node: query for node, query in self._online.items() if node in keys.keys() - again}
        new = sorted(keys.keys() - self._online)
        messages = [Message(self._question, node, "query") for node in new]
        self._online |= dict(zip(new, self.grid.push_messages(messages), strict=True)) if new else {}
        waiting = {query: node for node, query in self._online.items() if query is not None}
        for reply in self.grid.pull_messages(list(waiting)) if waiting else ():
            node = waiting[reply.metadata.reply_to_message_id]
            self._online[node] = None
            self._admit(node, keys[node], reply)

    def _admit(self, node: int, key: bytes, reply: Message) -> None:
        """Make a node a member by its reply to the query, or refuse it."""
        client, size, validates = -1, 0, 0
        if reply.has_error():
            if reply.error.code in LOST:
                del self._online[node]  # It is queried again if it is still online.
                return
            problem = f"a node could not join: {one_line(reply.error.reason)}"
        else:
            try:
                numbers = reply.content.metric_records["numbers"]
                client, size, validates = (int(str(numbers[key])) for key in ("client", "size", "validates"))
                problem = self._reason_to_refuse(client, size, key)
            except (KeyError, ValueError) as error:
                problem = f"cannot read a client number from a node's reply: {type(error).__name__} {error}"
        if problem:
            self._refused[node] = client, problem
            logger.warning(problem)
        else:
            self.members[client] = Member(node, size, bool(validates))
            self._refused.pop(node, None)

    def _reason_to_refuse(self, client: int, size: int, key: bytes) -> str:
        """Return why a node cannot be the client that it claims to be; empty if it can."""
        if client not in range(self.clients):
            return f"a node claims to be client {client}; clients are 0 to {self.clients - 1}"
        if self._keys is not None and key != self._keys[client]:
            return f"a node claims to be client {client} but does not have the key of node-{client}.pub"
        # Without facts the clients hold parts of a partition, whose sizes the server knows.
        if "facts" in self._question and not 1 <= size <= MAX_SAMPLES:
            return f"client {client} reports {size} training samples; it must be 1 to {MAX_SAMPLES}"
        if client in self.members:
            return f"two nodes claim to be client {client}; the second is not used"
        return ""

    def wait(self, seconds: float, least: int) -> None:
        """Wait until every client has joined; after the timeout, `least` clients are enough."""
        for missing in self._poll(seconds, "join"):
            missing += [str(client) for client in range(self.clients) if client not in self.members]
            if not missing:
                return
        reasons = "".join(f"; {problem}" for _, problem in self._refused.values())
        text = f"after {seconds:g} s these clients have not joined: {', '.join(missing)}{reasons}"
        if len(self.members) < least:
            raise RunFailed(text)
        logger.warning(text)

    def ask(
        self, kind: str, clients: Sequence[int], content: Callable[[int], RecordDict], seconds: float
    ) -> Iterator[tuple[int, Message]]:
        """Send each client its message; yield the replies as they arrive, until the timeout."""
        end = time.monotonic() + seconds
        missing, sent, pending = set(clients), dict[int, int](), dict[str, int]()
        for waiting in self._poll(seconds, kind.partition(".")[0]):
            # A message to a node that has left since is sent again.
            nodes = {client: member.node for client, member in self.members.items()}
            sent = {client: node for client, node in sent.items() if nodes.get(client) == node}
            ready = sorted(client for client in missing if client in nodes and client not in sent)
            left = max(1.0, end - time.monotonic())
            messages = [Message(content(client), nodes[client], kind, ttl=left) for client in ready]
            identities = self.grid.push_messages(messages) if ready else ()
            for client, identity in zip(ready, identities, strict=True):
                sent[client] = nodes[client]
                pending[identity] = client
            for reply in self.grid.pull_messages(list(pending)) if pending else ():
                client = pending.pop(reply.metadata.reply_to_message_id)
                if reply.has_error() and reply.error.code in LOST:
                    sent.pop(client, None)
                elif client in missing:
                    missing.remove(client)
                    yield client, reply
            if not missing:
                return
            waiting += [f"{c}" if c in nodes else f"{c} (not connected)" for c in sorted(missing)]

    def _poll(self, seconds: float, what: str) -> Iterator[list[str]]:
        """Refresh until the timeout; log at growing intervals what clients the caller adds to each list."""
        start, since, due = time.monotonic(), time.strftime("%H:%M:%S"), REMIND_SECONDS
        while True:
            self.refresh()
            waiting: list[str] = []
            yield waiting
            elapsed = time.monotonic() - start
            if elapsed >= seconds:
                return
            if elapsed >= due:
                due = 2 * elapsed
                logger.info("waiting since %s for clients %s to %s", since, ", ".join(waiting), what)
            time.sleep(POLL_SECONDS)
