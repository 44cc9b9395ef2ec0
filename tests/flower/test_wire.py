"""Messages between server and clients: round trips, and replies that are refused."""

import re
from io import BytesIO

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from eunoe.core.flat_model import Weights
from eunoe.engines.client import SKIPPED
from eunoe.flower.wire import (
    MAX_TEXT,
    Form,
    Layout,
    decode_declared,
    decode_order,
    decode_update,
    encode_broadcast,
    encode_order,
    encode_update,
    encode_vectors,
    one_line,
)
from eunoe.server.aggregate import Upload
from eunoe.server.updates import Broadcast, Update

START = Weights(torch.zeros(3), torch.zeros(2), torch.zeros(1, dtype=torch.int64))
UPLOADS = {"control": Upload("sum", 3)}
LAYOUT = Layout(START, UPLOADS)
FORM = {"a": Form(3, ("float32", "float64"))}
SENT = Update(4, 20, START.copy(), {"control": torch.ones(3)}, 5, 1.5, 0.5, 100, 100)


def test_an_order_arrives_as_it_was_sent() -> None:
    broadcast = Broadcast(7, START, {"control": torch.arange(3.0)})
    for start in (None, 6):
        message = RecordDict({**encode_broadcast(broadcast), "order": encode_order("a1", 7, start)})
        run, received_start, received = decode_order(message)
        assert (run, received_start, received.round) == ("a1", start, 7)
        assert received.shared["control"].tolist() == [0, 1, 2]
        assert received.weights.int_buffers.dtype == torch.int64


@pytest.mark.parametrize(("run", "round"), [("../up", 1), ("", 1), ("a1", 0)])
def test_an_order_that_could_leave_the_folder_is_refused(run: str, round: int) -> None:
    order = encode_order(run, round, None)
    message = RecordDict({**encode_broadcast(Broadcast(1, START, {})), "order": order})
    with pytest.raises(ValueError, match="the server's order has run"):
        decode_order(message)


def test_an_update_arrives_as_it_was_sent() -> None:
    update, keeps_state = decode_update(encode_update(SENT, keeps_state=True), 4, LAYOUT)
    assert keeps_state
    assert update.skipped is None
    assert (update.client, update.size, update.steps, update.loss_after) == (4, 20, 5, 0.5)
    assert update.uploads["control"].tolist() == [1, 1, 1]


def test_a_skipped_client_sends_nothing_else() -> None:
    reply = encode_update(Update(4, 20, START, {}, skipped="any reason"), keeps_state=False)
    assert not reply.array_records
    assert decode_update(reply, 4, LAYOUT)[0].skipped == SKIPPED


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"weights": encode_vectors({**START.vectors(), "parameters": torch.zeros(2)})},
            r"parameters .* \[2\]",
        ),
        ({"weights": encode_vectors({"parameters": torch.zeros(3)})}, "cannot be read"),
        ({"uploads": encode_vectors({"control": torch.ones(3, dtype=torch.int64)})}, "control is int64"),
        ({"numbers": MetricRecord({"size": -1})}, "size is not a count"),
        ({"numbers": MetricRecord({})}, "cannot be read"),
    ],
)
def test_an_invalid_reply_is_an_absent_update(changes: dict[str, ConfigRecord], reason: str) -> None:
    reply = RecordDict({**encode_update(SENT, keeps_state=True), **changes})
    update, keeps_state = decode_update(reply, 4, LAYOUT)
    assert (update.client, update.size, keeps_state) == (4, 0, False)
    assert re.search(reason, str(update.skipped))


def test_another_partys_text_is_printable_and_bounded() -> None:
    assert one_line("a\nb\x1b[31m") == "a b [31m"
    assert one_line(None) == "no reason given"
    assert one_line("x" * 1000) == "x" * MAX_TEXT + " ..."


def saved(values: np.ndarray) -> bytes:
    stream = BytesIO()
    np.save(stream, values)
    return stream.getvalue()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_was_declared_arrives_as_it_was_sent(dtype: torch.dtype) -> None:
    value = torch.tensor([1.0, -2.5, 1e-30], dtype=dtype)
    received = decode_declared(encode_vectors({"a": value}), FORM)["a"]
    assert received.dtype == dtype
    assert torch.equal(received, value)


def test_an_empty_vector_and_counters_arrive_too() -> None:
    sent = {"a": torch.empty(0), "n": torch.tensor([2**40])}
    received = decode_declared(encode_vectors(sent), {"a": Form(0, ("float32",)), "n": Form(1, ("int64",))})
    assert received["a"].numel() == 0
    assert received["n"].tolist() == [2**40]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (Array("float32", (10**9,), "numpy.ndarray", b""), r"is float32 \[1000000000\], not float32 or"),
        (Array("object", (3,), "numpy.ndarray", b""), "is object"),
        (Array("float32", (3,), "numpy.ndarray", b"x" * 100_000), "has 100000 bytes, too many"),
        # The inner header asks for 8 GB, or for another type than Flower's record says.
        (Array("float32", (3,), "numpy.ndarray", saved(np.zeros(3, np.float64))), "is float64"),
        (Array("float32", (3,), "numpy.ndarray", saved(np.zeros(4, np.float32))), r"is float32 \[4\]"),
        (
            Array(
                "float32",
                (3,),
                "numpy.ndarray",
                saved(np.zeros(3, np.float32)).replace(b"(3,), }         ", b"(2000000000,), }"),
            ),
            r"is float32 \[2000000000\] in 12 bytes",
        ),
        (Array("float32", (3,), "numpy.ndarray", saved(np.zeros(3, np.float32))[:-1]), "in 11 bytes"),
        (Array("float32", (3,), "pickle", saved(np.zeros(3, np.float32))), "not in NumPy's format"),
        (Array("float32", (3,), "numpy.ndarray", b"nonsense"), "magic"),
    ],
)
def test_what_is_not_as_declared_is_refused(array: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_declared(ArrayRecord({"a": array}), FORM)


def test_names_are_those_that_were_declared() -> None:
    with pytest.raises(ValueError, match="it has the vectors a, b, not a"):
        decode_declared(encode_vectors({"a": torch.zeros(3), "b": torch.zeros(1)}), FORM)
    with pytest.raises(ValueError, match="it has the vectors none, not a"):
        decode_declared(ArrayRecord({}), FORM)
