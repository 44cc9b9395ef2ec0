"""Smaller updates on Flower's wire: the bytes that are counted, the bits of the serial engine."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import Message, RecordDict

from eunoe.config.options import Compression
from eunoe.core.flat_model import Weights
from eunoe.flower.client import train
from eunoe.flower.node import node_options
from eunoe.flower.wire import Layout, decode_update, encode_update, encode_vectors
from eunoe.server.aggregate import Upload
from eunoe.server.updates import Update
from eunoe.simulation.running import run
from tests.flower import test_federation
from tests.flower.grid import traveled
from tests.flower.test_federation import Federation, assert_same, values

CASES: dict[str, dict[str, Any]] = {
    "topk": {"compress": {"name": "topk", "share": 0.1}},
    "quantize": {"compress": {"name": "quantize", "bits": 4}},
    "scaffold": {"compress": {"name": "topk", "share": 0.1}, "method": "scaffold"},
    "batch norm": {"compress": {"name": "topk", "share": 0.1}, "model": "tests.flower.methods:Normed"},
    "fedcurv": {"method": {"name": "fedcurv", "kept": 0.1}},
    "fedcurv, last round": {"method": {"name": "fedcurv", "kept": 0.1, "memory": "last_round"}},
    "fedcurv and topk": {
        "method": {"name": "fedcurv", "kept": 0.05},
        "compress": {"name": "topk", "share": 0.05},
    },
}


@pytest.fixture(autouse=True)
def _setting(server_process, some_digits):
    test_federation.DATA["name"] = str(some_digits)


def payload(content: RecordDict) -> int:
    """The bytes of all vectors in a reply, without NumPy's headers."""
    total = 0
    for record in content.array_records.values():
        for array in record.values():
            head = BytesIO(array.data)
            np.lib.format.read_magic(head)
            np.lib.format.read_array_header_1_0(head)
            total += len(array.data) - head.tell()
    return total


@pytest.mark.parametrize("case", CASES)
def test_bits_are_those_of_the_serial_engine_and_bytes_those_that_are_counted(
    tmp_path: Path, case: str
) -> None:
    serial = run(values(**CASES[case]), out=tmp_path / "serial")
    federation, sent = Federation(tmp_path / "flower", **CASES[case]), dict[int, int]()

    def weighed(node: int, message: Message) -> RecordDict | None:
        if message.metadata.message_type != "train":
            return None
        content = traveled(message.content)
        given = node_options(federation.grid.nodes[node])
        reply = train(federation.config, given, content)
        round = content.config_records["order"]["round"]
        sent[round] = sent.get(round, 0) + payload(traveled(reply))
        return reply

    federation.grid.tamper = weighed
    assert_same(federation.serve(), serial)
    assert sent == {record["round"]: record["bytes_up"] for record in serial.records}
    assert sent[1] < serial.records[0]["bytes_down"] or "fedcurv" in case


START = Weights(torch.arange(6.0), torch.zeros(0), torch.zeros(0, dtype=torch.int64))
UPLOADS = {"a": Upload("sum", 6, entries=2), "b": Upload("sum", 6, entries=2, indices_of="a")}


def test_sparse_uploads_share_their_indices_and_arrive_whole() -> None:
    own = {"a": torch.tensor([0, 0, 2.0, 0, 0, 0]), "b": torch.tensor([0, 0, 0, 0, -1.0, 0])}
    reply = encode_update(Update(1, 5, START, own), keeps_state=False, uploads=UPLOADS)
    assert set(reply.array_records["uploads"]) == {"a/indices", "a/values", "b/values"}
    update, _ = decode_update(reply, 1, Layout(START, UPLOADS))
    assert update.skipped is None
    assert all(torch.equal(update.uploads[name], own[name]) for name in own)
    with pytest.raises(ValueError, match="3 values are not 0, more than the 2"):
        encode_update(Update(1, 5, START, {**own, "a": torch.eye(6)[0] + own["a"]}), False, UPLOADS)


@pytest.mark.parametrize(
    ("indices", "problem"),
    [([4, 1], "not increasing"), ([0, 6], "outside 0 to 5"), ([0, 1, 2], "not int32 [2]")],
)
def test_indices_that_cannot_be_are_refused(indices: list[int], problem: str) -> None:
    parts = Layout(START, {}, Compression(name="topk", share=0.3))
    sent = START.vectors() | {
        "parameters/indices": torch.tensor(indices, dtype=torch.int32),
        "parameters/values": torch.ones(2),
    }
    del sent["parameters"]
    reply = RecordDict({**encode_update(Update(1, 5, START, {}), keeps_state=False)})
    reply["weights"] = encode_vectors(sent)
    update, _ = decode_update(reply, 1, parts)
    assert problem in (update.skipped or "")
