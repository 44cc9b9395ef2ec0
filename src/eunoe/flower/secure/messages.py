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
    run = str(record["run"])
    # It becomes the name of a folder on the client's disk.
    if not run.isalnum():
        raise ValueError(f"the server's run is called {run!r}")
    return Session(run, int(str(record["round"])), int(str(record["threshold"])))


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
    """Encode public keys by client, as a list for each field."""
    columns = {name: [getattr(entry, name) for entry in keys.values()] for name in PublicKeys._fields}
    return ConfigRecord({"clients": list(keys), **columns})


def decode_keys(record: ConfigRecord) -> dict[int, PublicKeys]:
    """Decode public keys by client."""
    clients = decode_clients(record)
    columns = [_decode_list(record, name, len(clients)) for name in PublicKeys._fields]
    keys = dict(zip(clients, map(PublicKeys, *columns), strict=True))
    if any(len(key) != KEY_BYTES for entry in keys.values() for key in (entry.masks, entry.shares)):
        raise ValueError(f"a key does not have {KEY_BYTES} bytes")
    return keys


def encode_bytes(values: Mapping[int, bytes]) -> ConfigRecord:
    """Encode bytes by client."""
    return ConfigRecord({"clients": list(values), "bytes": list(values.values())})


def decode_bytes(record: ConfigRecord) -> dict[int, bytes]:
    """Decode bytes by client."""
    clients = decode_clients(record)
    return dict(zip(clients, _decode_list(record, "bytes", len(clients)), strict=True))


def _decode_list(record: ConfigRecord, name: str, count: int) -> list[bytes]:
    values = record[name]
    if not isinstance(values, list) or len(values) != count:
        raise ValueError(f"there are not {count} {name}")
    if not all(isinstance(value, bytes) and len(value) <= _MAX_BYTES for value in values):
        raise ValueError(f"the {name} are not bytes, or too many")
    return [bytes(value) for value in values]  # type: ignore[arg-type]
