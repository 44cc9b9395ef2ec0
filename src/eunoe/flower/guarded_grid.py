"""The server's connection to the nodes, guarded against what a node may send.

Flower puts a reply together in memory before anybody can look at it, as large as the reply says, takes whose
reply it is from the reply itself, and lets one that cannot be read end the server. Here a reply is received
up to a size, belongs to the message that the SuperLink says it answers, and is an error of its own node if
it cannot be read.
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
from flwr.serverapp import Grid
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
    """A Grid whose replies have at most `most` bytes."""

    def __init__(self, grid: HttpGrid, most: int = SMALL_REPLY) -> None:
        self.most = most
        self._grid = grid
        client: Any = grid._runtime_client
        self._take_messages, self._take_piece = client.PullMessages, client.PullObject
        self._confirm = client.ConfirmMessageReceived
        client.PullMessages, client.PullObject = self._one_reply, self._piece
        client.ConfirmMessageReceived = self._complete
        self._reply, self._lock = PullAppMessagesResponse(), Lock()
        # Of the reply that is being received: the size of each piece, and which pieces its arrays consist of.
        self._sizes: dict[str, int] = {}
        self._arrays: dict[str, Counter[str]] = {}

    def get_nodes(self) -> Iterable[NodeInfo]:
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies that are there, each received by itself."""
        answer = self._take_messages(PullAppMessagesRequest(message_ids=message_ids))
        return [
            self._received_reply(message, tree)
            for message, tree in zip(answer.messages_list, answer.message_object_trees, strict=True)
        ]

    def _received_reply(self, message: Any, tree: Any) -> Message:
        self._reply = PullAppMessagesResponse(messages_list=[message], message_object_trees=[tree])
        self._sizes, self._arrays = {}, {}
        asked, problem = message.metadata.reply_to_message_id, ""
        try:
            (reply,) = self._grid.pull_messages([asked])
            if not isinstance(reply, Message) or reply.metadata.reply_to_message_id != asked:
                problem = "its reply is not one to the message that it was sent"
        except (httpx.HTTPError, RunNotRunningException):
            raise
        except Exception as error:  # Another party's bytes may fail to parse in any way.
            problem = f"its reply cannot be read: {type(error).__name__} {error}"
        if self._size() > self.most:
            problem = f"its reply has more than {self.most} bytes"
        if not problem:
            return reply
        failure = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, problem)
        return make_message(metadata=message_from_proto(message).metadata, error=failure)

    def _one_reply(self, request: Any) -> PullAppMessagesResponse:
        """What Flower's own method gets when it asks for replies: the one that is being received."""
        return self._reply

    def _piece(self, request: Any) -> Any:
        """A piece of a reply, unless those before it were enough."""
        if self._size() <= self.most:
            piece = self._take_piece(request)
            with self._lock:
                self._sizes[request.object_id] = len(piece.object_content)
                self._arrays[request.object_id] = _parts(piece.object_content)
        if self._size() > self.most:
            raise ObjectPullError(request.object_id, "the reply is too large")
        return piece

    def _complete(self, request: Any) -> Any:
        """All pieces are here, and Flower is about to put arrays together of them."""
        answer = self._confirm(request)
        if self._size() > self.most:
            raise ValueError("the reply is too large")
        return answer

    def _size(self) -> int:
        """The bytes that were received, or that arrays will have: they may name a piece many times."""
        with self._lock:
            parts = (item for parts in self._arrays.values() for item in parts.items())
            arrays = sum(self._sizes.get(part, 0) * times for part, times in parts)
            return max(arrays, sum(self._sizes.values()))


def _parts(content: bytes) -> Counter[str]:
    """How often an array names each of its pieces; nothing if this is no array."""
    if not content or get_object_type_from_object_content(content) != "Array":
        return Counter()
    names = get_object_children_ids_from_object_content(content)
    return Counter(names[index] for index in json.loads(get_object_body(content, Array))["arraychunk_ids"])


def guarded(grid: Grid) -> "GuardedGrid | Grid":
    """A guarded connection, if there is a network behind it."""
    return GuardedGrid(grid) if isinstance(grid, HttpGrid) else grid
