"""The server's connection to the nodes, guarded against harmful replies.

Flower assembles a reply in memory, of whatever size, before the server sees it, trusts the reply on which
message it answers, and lets an unreadable reply end the server. Here replies have a size limit, belong to the
message that the SuperLink says they answer, and are an error of their node if they cannot be read.
"""

import json
from collections import Counter
from collections.abc import Iterable
from threading import Lock
from typing import Any

import httpx
from flwr.app import Array, Error, Message
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import (
    get_object_body,
    get_object_children_ids_from_object_content,
    get_object_type_from_object_content,
)
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
from flwr.supercore.run import RunNotRunningException
from flwr.superlink.grid.http_grid import HttpGrid

# Bytes of a reply that carries no model.
SMALL_REPLY = 2**20


class GuardedGrid:
    """A Grid whose replies have at most `max_bytes` bytes.

    It replaces the requests of Flower's own connection, so that Flower assembles one reply at a time.
    """

    def __init__(self, grid: HttpGrid, max_bytes: int = SMALL_REPLY) -> None:
        self._grid, self.max_bytes = grid, max_bytes
        client: Any = grid._runtime_client
        self._pull_messages, self._pull_object = client.PullMessages, client.PullObject
        self._confirm_received = client.ConfirmMessageReceived
        client.PullMessages = lambda request: self._reply
        client.PullObject, client.ConfirmMessageReceived = self._pull_piece, self._confirm
        self._reply: PullAppMessagesResponse = PullAppMessagesResponse()
        self._lock = Lock()
        # Of the reply that is being received: the size of each piece, and the pieces of its arrays.
        self._sizes: dict[str, int] = {}
        self._arrays: dict[str, Counter[str]] = {}

    def get_nodes(self) -> Iterable[NodeInfo]:
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Return the replies that have arrived, each received separately."""
        answer = self._pull_messages(PullAppMessagesRequest(message_ids=message_ids))
        return [
            self._receive(message, tree)
            for message, tree in zip(answer.messages_list, answer.message_object_trees, strict=True)
        ]

    def _receive(self, message: Any, tree: Any) -> Message:
        """Let Flower assemble one reply; return an error of its node if that fails."""
        self._reply = PullAppMessagesResponse(messages_list=[message], message_object_trees=[tree])
        self._sizes, self._arrays = {}, {}
        asked, problem = message.metadata.reply_to_message_id, ""
        try:
            (reply,) = self._grid.pull_messages([asked])
            if not isinstance(reply, Message) or reply.metadata.reply_to_message_id != asked:
                problem = "its reply belongs to another message than the one that it was sent"
        except (httpx.HTTPError, RunNotRunningException):
            raise
        except Exception as error:  # Another party's bytes may fail to parse in any way.
            problem = f"its reply cannot be read: {type(error).__name__} {error}"
        if self._size() > self.max_bytes:
            problem = f"its reply has more than {self.max_bytes} bytes"
        if not problem:
            return reply
        failure = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, problem)
        return make_message(metadata=message_from_proto(message).metadata, error=failure)

    def _pull_piece(self, request: Any) -> Any:
        """Pull a piece of a reply, unless the pieces before it exceed the limit."""
        if self._size() <= self.max_bytes:
            piece = self._pull_object(request)
            with self._lock:
                self._sizes[request.object_id] = len(piece.object_content)
                self._arrays[request.object_id] = _count_pieces(piece.object_content)
        if self._size() > self.max_bytes:
            raise ObjectPullError(request.object_id, "the reply is too large")
        return piece

    def _confirm(self, request: Any) -> Any:
        """Check the size when all pieces are here, before Flower assembles arrays from them."""
        answer = self._confirm_received(request)
        if self._size() > self.max_bytes:
            raise ValueError("the reply is too large")
        return answer

    def _size(self) -> int:
        """Return the bytes received, or those of the arrays if more: they may name a piece many times."""
        with self._lock:
            pieces = (item for pieces in self._arrays.values() for item in pieces.items())
            arrays = sum(self._sizes.get(piece, 0) * times for piece, times in pieces)
            return max(arrays, sum(self._sizes.values()))


def _count_pieces(content: bytes) -> Counter[str]:
    """Count how often an array names each of its pieces; other content names none."""
    if not content or get_object_type_from_object_content(content) != "Array":
        return Counter()
    names = get_object_children_ids_from_object_content(content)
    return Counter(names[index] for index in json.loads(get_object_body(content, Array))["arraychunk_ids"])
