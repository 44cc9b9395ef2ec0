"""What another party sends is checked before it is used."""

import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, RecordDict

from eunoe.flower.secure.messages import (
    decode_bytes,
    decode_clients,
    decode_keys,
    decode_session,
    encode_bytes,
    encode_keys,
    encode_session,
)
from eunoe.flower.secure.protocol import PublicKeys, Session
from tests.flower.grid import traveled

KEYS = {3: PublicKeys(b"a" * 32, b"b" * 32), 1: PublicKeys(b"c" * 32, b"d" * 32, b"signature")}


def test_all_arrives_as_it_was_sent():
    session = Session("abc", 7, 3)
    sent = RecordDict(
        {"session": encode_session(session), "keys": encode_keys(KEYS), "s": encode_bytes({4: b"x"})}
    )
    arrived = traveled(sent)
    assert decode_session(arrived) == session
    assert decode_keys(arrived.config_records["keys"]) == KEYS
    assert decode_bytes(arrived.config_records["s"]) == {4: b"x"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": [3, 3]}, "a client is named twice"),
        ({"clients": ["3", "1"]}, "the clients are not numbers"),
        ({"clients": 3}, "the clients are not numbers"),
        ({"bytes": [b"a" * 64]}, "there are not 2 values"),
        ({"bytes": b"a" * 64}, "there are not 2 values"),
        ({"bytes": [b"a" * 63, b"c" * 64]}, "a key does not have 32 bytes"),
        ({"bytes": ["b" * 64, "d" * 64]}, "the values are not bytes"),
        ({"bytes": [b"", b"s" * 2000]}, "the values are not bytes, or too many"),
    ],
)
def test_keys_that_are_none_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        decode_keys(ConfigRecord({**encode_keys(KEYS), **change}))


def test_clients_are_each_named_once():
    assert decode_clients(ConfigRecord({"clients": [5, 2]})) == [5, 2]
