"""Replies as a registered node may send them, through Flower's own grid and without a network."""

from types import SimpleNamespace

import httpx
import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, ObjectTree, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_id, get_object_tree
from flwr.superlink.grid.http_grid import HttpGrid

from eunoe.flower.roster import LOST, GuardedGrid
from eunoe.flower.wire import one_line

MOST = 50_000


class Link:
    """The SuperLink's side: replies with their objects, and how many bytes of them were asked for."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.replies: list[tuple] = []
        self.sent = 0

    def add(self, message: Message, outer: Message | None = None) -> None:
        """A reply; the SuperLink believes what stands in `outer`."""
        message.metadata.__dict__["_message_id"] = message.object_id
        self.objects |= {name: part.deflate() for name, part in get_all_nested_objects(message).items()}
        proto = message_to_proto(remove_content_from_message(outer or message))
        proto.metadata.message_id = message.object_id
        self.replies.append((proto, get_object_tree(message)))

    def add_raw(self, message: Message, content: bytes) -> None:
        """A reply whose bytes are just these."""
        name = get_object_id(content)
        self.objects[name] = content
        proto = message_to_proto(remove_content_from_message(message))
        proto.metadata.message_id = name
        self.replies.append((proto, ObjectTree(object_id=name)))

    def PullMessages(self, request) -> PullAppMessagesResponse:
        found = [one for one in self.replies if one[0].metadata.reply_to_message_id in request.message_ids]
        self.replies = [one for one in self.replies if one not in found]
        return PullAppMessagesResponse(
            messages_list=[proto for proto, _ in found], message_object_trees=[tree for _, tree in found]
        )

    def PullObject(self, request) -> PullObjectResponse:
        content = self.objects[request.object_id]
        self.sent += len(content)
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, request) -> ConfirmMessageReceivedResponse:
        return ConfirmMessageReceivedResponse()


@pytest.fixture(name="link")
def _link(server_process):
    return Link()


@pytest.fixture(name="grid")
def _grid(link):
    grid = HttpGrid(token="token")
    grid._client = link
    grid._run = SimpleNamespace(run_id=1)
    return GuardedGrid(grid, MOST)


def order(number: int) -> Message:
    message = Message(RecordDict(), number, "train")
    message.metadata.__dict__["_message_id"] = f"order {number}"
    return message


def reply(number: int, size: int = 10) -> Message:
    values = np.random.default_rng(number).random(size, np.float32)
    return Message(RecordDict({"weights": ArrayRecord({"a": Array(values)})}), reply_to=order(number))


def texts(messages) -> dict[str, str]:
    return {
        one.metadata.reply_to_message_id: one_line(one.error.reason) if one.has_error() else "good"
        for one in messages
    }


def test_good_replies_arrive_as_they_were_sent(link, grid):
    sent = [reply(1), reply(2, 1000)]
    for message in sent:
        link.add(message)
    found = grid.pull_messages(["order 1", "order 2"])
    assert texts(found) == {"order 1": "good", "order 2": "good"}
    for one, other in zip(sent, found, strict=True):
        arrays = [message.content["weights"]["a"].numpy() for message in (one, other)]
        np.testing.assert_array_equal(*arrays)
    assert grid.pull_messages(["order 1"]) == []


def test_a_large_reply_is_an_error_of_its_node_and_is_not_received_to_the_end(link, grid):
    """40 MB in pieces of 5 MiB; two are on their way at a time."""
    link.add(reply(1, 10_000_000))
    link.add(reply(2))
    found = texts(grid.pull_messages(["order 1", "order 2"]))
    assert found == {"order 1": f"its reply exceeds the limit of {MOST} bytes", "order 2": "good"}
    assert link.sent < 17_000_000


def test_an_array_that_names_a_piece_many_times_is_a_large_reply(link, grid, monkeypatch):
    """40 MB of zeros are three pieces, of which one stands for six."""
    values = Array(np.zeros(10_000_000, np.float32))
    link.add(Message(RecordDict({"weights": ArrayRecord({"a": values})}), reply_to=order(1)))
    inflated = []
    monkeypatch.setattr(Array, "inflate", classmethod(lambda *arguments, **more: inflated.append(arguments)))
    grid.max_bytes = 15_000_000
    assert texts(grid.pull_messages(["order 1"])) == {
        "order 1": "its reply exceeds the limit of 15000000 bytes"
    }
    assert link.sent < 15_000_000
    assert inflated == []


def test_many_small_pieces_are_a_large_reply(link, grid):
    records = {str(number): ConfigRecord({"text": f"{number:01000}"}) for number in range(100)}
    link.add(Message(RecordDict(records), reply_to=order(1)))
    assert "exceeds the limit" in texts(grid.pull_messages(["order 1"]))["order 1"]
    assert link.sent < 1.1 * MOST


@pytest.mark.parametrize(
    "content", [b"", b"\x00", b"Message,,3\x00abc", b"RecordDict,,0\x00", b"Nothing,,0\x00", b"Message " * 99]
)
def test_a_reply_that_cannot_be_read_is_an_error_of_its_node(link, grid, content):
    link.add_raw(reply(1), content)
    link.add(reply(2))
    found = texts(grid.pull_messages(["order 1", "order 2"]))
    assert found["order 1"].startswith("its reply ")
    assert found["order 2"] == "good"


def test_a_node_cannot_answer_for_another(link, grid):
    """Its reply says inside that it answers the other's message."""
    link.add(reply(2), outer=reply(1))
    found = texts(grid.pull_messages(["order 1", "order 2"]))
    assert found == {"order 1": "its reply answers a different message than the one sent to it"}


def test_a_reply_whose_upload_ended_too_early_is_asked_for_again(link, grid):
    link.add(reply(1))
    link.PullObject = lambda request: PullObjectResponse(object_found=False)
    (found,) = grid.pull_messages(["order 1"])
    assert found.metadata.reply_to_message_id == "order 1"
    assert found.error.code in LOST


def test_a_lost_connection_is_nobodys_fault(link, grid):
    def fails(request):
        raise httpx.ConnectError("gone")

    link.add(reply(1))
    link.PullObject = fails
    with pytest.raises(httpx.ConnectError):
        grid.pull_messages(["order 1"])
