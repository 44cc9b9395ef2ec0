"""A client's replies in the four stages of secure aggregation.

Its secrets must last from one stage to the next. They are in the memory of its SuperNode, never on disk. A
node that was restarted in between has no secrets left and is out of the round.
"""

import logging
from pathlib import Path

import torch
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from eunoe.config.schema import Config
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.flower.deploy.credentials import is_signed, sign_message
from eunoe.flower.node import Handler, NodeOptions, train_and_save
from eunoe.flower.own_data import RemoteFederation
from eunoe.flower.secure.history import allow_once, vector_digest
from eunoe.flower.secure.messages import (
    decode_bytes,
    decode_clients,
    decode_keys,
    decode_session,
    encode_bytes,
    encode_keys,
)
from eunoe.flower.secure.protocol import Participant, PublicKeys, Secrets, Session, as_words
from eunoe.flower.wire import encode_vectors
from eunoe.server.secure_sum import OutOfBound, encode_update

logger = logging.getLogger(__name__)
# The record with a node's secrets, and the stage that it has completed.
_MEMORY = "secure_aggregation"
_PUBLISHED, _SHARED, _SENT = 1, 2, 3


def publish_keys(config: Config, node: NodeOptions, content: RecordDict, memory: RecordDict) -> RecordDict:
    """Make new secrets and reply with their public keys, signed if the node has a key for it."""
    secrets, session = Secrets.new(), decode_session(content)
    _remember(memory, session, _PUBLISHED, secrets, {})
    keys = secrets.public
    if node.key is not None:
        keys = keys._replace(signature=sign_message(node.key, keys.message(session, node.client)))
    return RecordDict({"keys": encode_keys({node.client: keys})})


def share_secrets(config: Config, node: NodeOptions, content: RecordDict, memory: RecordDict) -> RecordDict:
    """Split the secrets into shares, encrypted for each client."""
    session = decode_session(content)
    secrets, _ = _recall(memory, session, _PUBLISHED)
    keys = decode_keys(content.config_records["keys"])
    if node.peers is not None:
        _check_signatures(node.peers, session, keys)
    shares = Participant(session, node.client, secrets, keys).shares()
    _remember(memory, session, _SHARED, secrets, keys)
    return RecordDict({"sealed": encode_bytes(shares)})


def send_masked(config: Config, node: NodeOptions, content: RecordDict, memory: RecordDict) -> RecordDict:
    """Train, and reply with the update in fixed point under masks."""
    session = decode_session(content)
    secrets, keys = _recall(memory, session, _SHARED)
    peers = {client: keys[client] for client in decode_clients(content.config_records["peers"])}
    participant = Participant(session, node.client, secrets, peers)
    order = content.config_records["order"]
    run, round = str(order["run"]), int(str(order["round"]))
    if (run, round) != (session.run, session.round):
        raise InputError(
            f"the server orders round {round} of run {run} in round {session.round} of run {session.run}"
        )
    done = train_and_save(config, node, content)
    _check_threshold(node, session, done.simulation)
    assert done.simulation.secure is not None
    try:
        aggregator = done.simulation.aggregator(done.broadcast)
        vector = encode_update(done.simulation.secure.fixed_point, aggregator, done.update)
    except OutOfBound as reason:
        # The reason contains a value of this client, which the server must not see.
        logger.warning("client %d leaves round %d: %s", node.client, session.round, reason)
        raise InputError(
            "its values exceed the bounds of secure_aggregation or are not finite; see the log of its node"
        ) from None
    masked = torch.from_numpy(participant.mask(as_words(vector.numpy())).view("int64"))
    # These secrets are not used again: two vectors under one mask would reveal their difference.
    _remember(memory, session, _SENT, secrets, peers)
    memory.config_records[_MEMORY]["vector"] = vector_digest(
        done.broadcast.weights.parameters.numpy().tobytes(), vector.numpy().tobytes()
    )
    return RecordDict(
        {
            "masked": encode_vectors({"sum": masked}),
            "numbers": MetricRecord({"keeps_state": int(done.keeps_state)}),
        }
    )


def reveal_shares(config: Config, node: NodeOptions, content: RecordDict, memory: RecordDict) -> RecordDict:
    """Reply with one share of each client, and delete all secrets."""
    session = decode_session(content)
    secrets, keys = _recall(memory, session, _SENT)
    alive, sealed = (
        decode_clients(content.config_records["alive"]),
        decode_bytes(content.config_records["sealed"]),
    )
    shares = Participant(session, node.client, secrets, keys).reveal(sealed, alive)
    sent = memory.config_records[_MEMORY]["vector"]
    assert isinstance(sent, bytes)
    allow_once(node.state, node.client, session, sent, alive)
    del memory.config_records[_MEMORY]
    return RecordDict({"shares": encode_bytes(shares)})


STAGES: dict[str, Handler] = {
    "query.keys": publish_keys,
    "query.shares": share_secrets,
    "train.masked": send_masked,
    "query.unmask": reveal_shares,
}


def _check_threshold(node: NodeOptions, session: Session, simulation: Simulation) -> None:
    """Check the server's threshold and number of clients against the config and the known keys."""
    if node.peers is not None and isinstance(simulation.federation, RemoteFederation):
        # With data = "own" the number of clients comes from the server.
        clients, known = len(simulation.federation), len(list(node.peers.glob("node-*.pub")))
        if known > clients:
            raise InputError(
                f"the server announces {clients} clients, but peers has {known} keys: remove the keys of "
                "nodes that have left the federation"
            )
    threshold = simulation.secure.threshold if simulation.secure else None
    if session.threshold != threshold:
        raise InputError(
            f"the server's threshold is {session.threshold}, but that of the config is {threshold}"
        )


def _check_signatures(folder: Path, session: Session, keys: dict[int, PublicKeys]) -> None:
    for client, entry in keys.items():
        if not is_signed(folder / f"node-{client}.pub", entry.message(session, client), entry.signature):
            raise InputError(f"the keys that the server sent for client {client} are not signed by that node")


def _remember(
    memory: RecordDict, session: Session, stage: int, secrets: Secrets, keys: dict[int, PublicKeys]
) -> None:
    own = {"masks": secrets.masks, "shares": secrets.shares, "seed": secrets.seed}
    peers = {f"peer_{name}": value for name, value in encode_keys(keys).items()}
    memory.config_records[_MEMORY] = ConfigRecord({**session._asdict(), "stage": stage, **own, **peers})


def _recall(memory: RecordDict, session: Session, stage: int) -> tuple[Secrets, dict[int, PublicKeys]]:
    """Return the secrets and keys of this round, if `stage` is the last that was completed."""
    record = memory.config_records.get(_MEMORY)
    expected = {**session._asdict(), "stage": stage}
    if record is None or any(record[name] != value for name, value in expected.items()):
        raise InputError("it has no secrets for this stage of the round; its node may have been restarted")
    own = Secrets(*(bytes(record[name]) for name in ("masks", "shares", "seed")))  # type: ignore[arg-type]
    peers = {name: record[f"peer_{name}"] for name in ("clients", *PublicKeys._fields)}
    return own, decode_keys(ConfigRecord(peers))
