"""Messages of secure aggregation as Flower records, checked before they are used."""

from collections.abc import Iterable, Mapping

from flwr.app import ConfigRecord, RecordDict

from eunoe.flower.secure.primitives import KEY_BYTES
from eunoe.flower.secure.protocol import PublicKeys, Session

# More bytes than an encrypted pair of shares has.
_MOST_BYTES = 1024


def session_out(session: Session) -> ConfigRecord:
    """The round as its clients know it."""
    return ConfigRecord(session._asdict())


def session_in(content: RecordDict) -> Session:
    """The round of a message."""
    record = content.config_records["session"]
    run = str(record["run"])
    # It becomes the name of a folder on the client's disk.
    if not run.isalnum():
        raise ValueError(f"the server's run is called {run!r}")
    return Session(run, int(str(record["round"])), int(str(record["threshold"])))


def clients_out(clients: Iterable[int]) -> ConfigRecord:
    """Numbers of clients."""
    return ConfigRecord({"clients": list(clients)})


def clients_in(record: ConfigRecord) -> list[int]:
    """Numbers of clients, each once."""
    clients = record["clients"]
    if not isinstance(clients, list) or not all(isinstance(client, int) for client in clients):
        raise ValueError("the clients are not numbers")
    if len(set(clients)) != len(clients):
        raise ValueError("a client is named twice")
    return [int(client) for client in clients]


def keys_out(keys: Mapping[int, PublicKeys]) -> ConfigRecord:
    """Public keys by client."""
    columns = {name: [getattr(one, name) for one in keys.values()] for name in PublicKeys._fields}
    return ConfigRecord({"clients": list(keys), **columns})


def keys_in(record: ConfigRecord) -> dict[int, PublicKeys]:
    """Public keys by client."""
    clients = clients_in(record)
    columns = [_texts(record, name, len(clients)) for name in PublicKeys._fields]
    found = {
        client: PublicKeys(*one) for client, one in zip(clients, zip(*columns, strict=True), strict=True)
    }
    if any(len(key) != KEY_BYTES for one in found.values() for key in one[:2]):
        raise ValueError(f"a key does not have {KEY_BYTES} bytes")
    return found


def sealed_out(found: Mapping[int, bytes]) -> ConfigRecord:
    """Bytes by client."""
    return ConfigRecord({"clients": list(found), "bytes": list(found.values())})


def bytes_in(record: ConfigRecord) -> dict[int, bytes]:
    """Bytes by client."""
    clients = clients_in(record)
    return dict(zip(clients, _texts(record, "bytes", len(clients)), strict=True))


def _texts(record: ConfigRecord, name: str, count: int) -> list[bytes]:
    found = record[name]
    if not isinstance(found, list) or len(found) != count:
        raise ValueError(f"there are not {count} {name}")
    if not all(isinstance(one, bytes) and len(one) <= _MOST_BYTES for one in found):
        raise ValueError(f"the {name} are not bytes, or too many")
    return [bytes(one) for one in found]  # type: ignore[arg-type]
