"""A Flower network without a network: messages reach the client app at once, in Flower's own wire format.

Faults are put in by hand: nodes that are offline, silent, or answer with something else.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.node_pb2 import NodeInfo

from eunoe.flower.client import client_app


def traveled(content: RecordDict) -> RecordDict:
    """Records as they arrive at the other end."""
    return recorddict_from_proto(recorddict_to_proto(content))


@dataclass
class FakeGrid:
    """Nodes by their number, each with its --node-config, and the public keys of those that have one."""

    config: Path
    nodes: dict[int, dict[str, Any]]
    keys: dict[int, bytes] = field(default_factory=dict)
    offline: set[int] = field(default_factory=set)
    # Called with (node, message); gives another answer, or None for the true one, or raises Silence.
    tamper: Callable[[int, Message], RecordDict | None] = lambda node, message: None
    trained: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.replies: dict[str, Message] = {}
        # What a SuperNode keeps in memory from message to message.
        self.memory: dict[int, RecordDict] = {}
        self.count = 0
        self.before_poll: Callable[[], None] = lambda: None

    def get_nodes(self) -> Iterable[NodeInfo]:
        self.before_poll()
        online = [node for node in self.nodes if node not in self.offline]
        return [NodeInfo(node_id=node, public_key=self.keys.get(node, b"")) for node in online]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        return [self._deliver(message) for message in messages]

    def _deliver(self, message: Message) -> str:
        self.count += 1
        identity, node = f"message {self.count}", message.metadata.dst_node_id
        message.metadata.__dict__["_message_id"] = identity
        if node in self.offline:
            return identity
        try:
            reply = self._answer(node, message)
        except Silence:
            return identity
        except Exception as error:
            code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            reply = Message(Error(code, f"{type(error)}:<'{error}'>"), reply_to=message)
        self.replies[identity] = reply
        return identity

    def _answer(self, node: int, message: Message) -> Message:
        if (other := self.tamper(node, message)) is not None:
            return Message(other, reply_to=message)
        context = Context(1, node, self.nodes[node], self.memory.setdefault(node, RecordDict()), {}, 1)
        message.content = traveled(message.content)
        reply = client_app(self.config)(message, context)
        if message.metadata.message_type == "train":
            order = message.content.config_records["order"]
            self.trained.append((self.nodes[node]["client"], order["round"]))
        reply.content = traveled(reply.content)
        return reply

    def pull_messages(self, identities: Iterable[str]) -> list[Message]:
        return [self.replies.pop(one) for one in list(identities) if one in self.replies]


class Silence(Exception):
    """A message that never gets an answer."""
