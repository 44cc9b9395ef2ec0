"""What another party sends is checked before it is used."""

import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, RecordDict

from eunoe.flower.secure.messages import (
    bytes_in,
    clients_in,
    keys_in,
    keys_out,
    sealed_out,
    session_in,
    session_out,
)
from eunoe.flower.secure.protocol import PublicKeys, Session
from tests.flower.grid import traveled

KEYS = {3: PublicKeys(b"a" * 32, b"b" * 32), 1: PublicKeys(b"c" * 32, b"d" * 32, b"signature")}


def test_all_arrives_as_it_was_sent():
    session = Session("abc", 7, 3)
    sent = RecordDict({"session": session_out(session), "keys": keys_out(KEYS), "s": sealed_out({4: b"x"})})
    arrived = traveled(sent)
    assert session_in(arrived) == session
    assert keys_in(arrived.config_records["keys"]) == KEYS
    assert bytes_in(arrived.config_records["s"]) == {4: b"x"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": [3, 3]}, "a client is named twice"),
        ({"clients": ["3", "1"]}, "the clients are not numbers"),
        ({"clients": 3}, "the clients are not numbers"),
        ({"masks": [b"a" * 32]}, "there are not 2 masks"),
        ({"masks": [b"a" * 31, b"c" * 32]}, "a key does not have 32 bytes"),
        ({"shares": ["b" * 32, "d" * 32]}, "the shares are not bytes"),
        ({"signature": [b"", b"s" * 2000]}, "the signature are not bytes, or too many"),
    ],
)
def test_keys_that_are_none_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        keys_in(ConfigRecord({**keys_out(KEYS), **change}))


def test_a_run_is_no_path():
    with pytest.raises(ValueError, match="the server's run is called"):
        session_in(RecordDict({"session": session_out(Session("../up", 1, 3))}))


def test_clients_are_each_named_once():
    assert clients_in(ConfigRecord({"clients": [5, 2]})) == [5, 2]
