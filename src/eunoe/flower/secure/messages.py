"""Messages of secure aggregation as Flower records, checked before they are used."""

import hashlib
import json
from collections.abc import Iterable, Mapping

from flwr.app import ConfigRecord, RecordDict

from eunoe.flower.secure.primitives import KEY_BYTES
from eunoe.flower.secure.protocol import PublicKeys, Session

# More bytes than an encrypted pair of shares or a signature has.
_MAX_BYTES = 1024


def encode_session(session: Session) -> ConfigRecord:
    return ConfigRecord(session._asdict())


def decode_session(content: RecordDict) -> Session:
    """Decode the round to which a message belongs."""
    record = content.config_records["session"]
    return Session(str(record["run"]), *(int(str(record[name])) for name in ("round", "threshold")))


def broadcast_digest(content: RecordDict) -> bytes:
    """Return the digest of what all clients of a round are sent alike: the model and the facts."""
    parts = [
        [record, name, hashlib.sha256(array.data).hexdigest()]
        for record in ("weights", "shared")
        for name, array in sorted(content.array_records[record].items())
    ]
    facts = dict(content.config_records.get("facts") or {})
    return hashlib.sha256(json.dumps([parts, facts], sort_keys=True).encode()).digest()


def encode_clients(clients: Iterable[int]) -> ConfigRecord:
    return ConfigRecord({"clients": list(clients)})


def decode_clients(record: ConfigRecord) -> list[int]:
    """Decode client numbers, each of which must occur once."""
    clients = record["clients"]
    if not isinstance(clients, list) or not all(isinstance(client, int) for client in clients):
        raise ValueError("the clients are not numbers")
    if len(set(clients)) != len(clients):
        raise ValueError("a client is named twice")
    return [int(client) for client in clients]


def encode_keys(keys: Mapping[int, PublicKeys]) -> ConfigRecord:
    """Encode public keys by client."""
    return encode_bytes({client: b"".join(entry) for client, entry in keys.items()})


def decode_keys(record: ConfigRecord) -> dict[int, PublicKeys]:
    """Decode public keys by client."""
    keys, first, both = decode_bytes(record), KEY_BYTES, 2 * KEY_BYTES
    if any(len(value) < both for value in keys.values()):
        raise ValueError(f"a key does not have {KEY_BYTES} bytes")
    return {c: PublicKeys(value[:first], value[first:both], value[both:]) for c, value in keys.items()}


def encode_bytes(values: Mapping[int, bytes]) -> ConfigRecord:
    """Encode bytes by client."""
    return ConfigRecord({"clients": list(values), "bytes": list(values.values())})


def decode_bytes(record: ConfigRecord) -> dict[int, bytes]:
    """Decode bytes by client."""
    clients, values = decode_clients(record), record["bytes"]
    if not isinstance(values, list) or len(values) != len(clients):
        raise ValueError(f"there are not {len(clients)} values")
    if not all(isinstance(value, bytes) and len(value) <= _MAX_BYTES for value in values):
        raise ValueError("the values are not bytes, or too many")
    return dict(zip(clients, map(bytes, values), strict=True))  # type: ignore[arg-type]
