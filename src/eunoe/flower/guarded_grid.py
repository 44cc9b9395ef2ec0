"""The server's connection to the nodes, guarded against harmful replies.

Flower assembles a reply of any size in memory, trusts the reply on which message it answers, and lets an
unreadable reply end the server. Here replies have a size limit, belong to the message that the SuperLink says
they answer, and are an error of their node if they cannot be read.
"""

import json
from collections.abc import Iterable
from threading import Lock
from typing import Any, cast

import httpx
from flwr.app import Array, Error, Message
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.inflatable import inflatable_object as inflatable
from flwr.supercore.inflatable import inflatable_utils as utils
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.run import Run, RunNotRunningException
from flwr.superlink.grid.http_grid import HttpGrid

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
