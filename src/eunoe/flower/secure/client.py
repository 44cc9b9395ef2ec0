"""A client's answers in the four stages of secure aggregation.

Its secrets, which it must remember from one stage to the next, are in the memory of its SuperNode, never on
disk. A node that was restarted in between has no secrets left and is out of the round.
"""

import logging
from collections.abc import Callable
from pathlib import Path

import torch
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from eunoe.config.schema import Config
from eunoe.engines.secure_sum import encoded
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.flower.deploy.credentials import is_signed, sign_message
from eunoe.flower.node import NodeOptions, train_and_keep
from eunoe.flower.own_data import Scattered
from eunoe.flower.secure.history import allow_once, digest
from eunoe.flower.secure.messages import bytes_in, clients_in, keys_in, keys_out, sealed_out, session_in
from eunoe.flower.secure.protocol import Participant, PublicKeys, Secrets, Session, as_words
from eunoe.flower.wire import vectors_out
from eunoe.server.fixed_point import OutOfBound

logger = logging.getLogger(__name__)
Stage = Callable[[Config, NodeOptions, RecordDict, RecordDict], RecordDict]
# Where a node remembers its secrets, and the stages that it has been through.
_MEMORY = "secure_aggregation"
_HAS_KEYS, _HAS_SHARED, _HAS_SENT = 1, 2, 3


def publish_keys(config: Config, node: NodeOptions, content: RecordDict, memory: RecordDict) -> RecordDict:
    """Make new secrets and answer with their public keys, signed if the node says by which key."""
    secrets, session = Secrets.new(), session_in(content)
    _remember(memory, session, _HAS_KEYS, secrets, {})
    keys = secrets.public
    if node.key is not None:
        keys = keys._replace(signature=sign_message(node.key, keys.message(session, node.client)))
    return RecordDict({"keys": keys_out({node.client: keys})})


def share_secrets(config: Config, node: NodeOptions, content: RecordDict, memory: RecordDict) -> RecordDict:
    """Split the secrets into shares, encrypted for each client."""
    session = session_in(content)
    secrets, _ = _recall(memory, session, _HAS_KEYS)
    keys = keys_in(content.config_records["keys"])
    if node.peers is not None:
        _check_signatures(node.peers, session, keys)
    shares = Participant(session, node.client, secrets, keys).shares()
    _remember(memory, session, _HAS_SHARED, secrets, keys)
    return RecordDict({"sealed": sealed_out(shares)})


def send_masked(config: Config, node: NodeOptions, content: RecordDict, memory: RecordDict) -> RecordDict:
    """Train, and answer with the update in fixed point under masks."""
    session = session_in(content)
    secrets, keys = _recall(memory, session, _HAS_SHARED)
    peers = {client: keys[client] for client in clients_in(content.config_records["peers"])}
    participant = Participant(session, node.client, secrets, peers)
    if (run := str(content.config_records["order"]["run"])) != session.run:
        raise InputError(f"the server orders run {run} in run {session.run}")
    done = train_and_keep(config, node, content)
    _check_threshold(node, session, done.simulation)
    if done.broadcast.round != session.round:
        raise InputError(f"the server orders round {done.broadcast.round} in round {session.round}")
    try:
        vector = encoded(done.simulation.in_round(session.round), done.update, done.broadcast)
    except OutOfBound as reason:
        # The reason has a value of this client, which is nobody else's business.
        logger.warning("client %d leaves round %d: %s", node.client, session.round, reason)
        raise InputError(
            "its values are beyond the bounds of secure_aggregation or not finite; its own log says more"
        ) from None
    masked = torch.from_numpy(participant.masked(as_words(vector.numpy())).view("int64"))
    # Never again with these secrets: two vectors under one mask would show their difference.
    _remember(memory, session, _HAS_SENT, secrets, peers)
    memory.config_records[_MEMORY]["vector"] = digest(
        done.broadcast.weights.parameters.numpy().tobytes(), vector.numpy().tobytes()
    )
    return RecordDict(
        {"masked": vectors_out({"sum": masked}), "numbers": MetricRecord({"keeps_state": int(done.keeps)})}
    )


def reveal_shares(config: Config, node: NodeOptions, content: RecordDict, memory: RecordDict) -> RecordDict:
    """Answer with one share of each client, and forget all secrets."""
    session = session_in(content)
    secrets, keys = _recall(memory, session, _HAS_SENT)
    alive, sealed = clients_in(content.config_records["alive"]), bytes_in(content.config_records["sealed"])
    shares = Participant(session, node.client, secrets, keys).revealed(sealed, alive)
    sent = memory.config_records[_MEMORY]["vector"]
    assert isinstance(sent, bytes)
    allow_once(node.state, node.client, session, sent, alive)
    del memory.config_records[_MEMORY]
    return RecordDict({"shares": sealed_out(shares)})


STAGES: dict[str, Stage] = {
    "query.keys": publish_keys,
    "query.shares": share_secrets,
    "train.masked": send_masked,
    "query.unmask": reveal_shares,
}


def _check_threshold(node: NodeOptions, session: Session, simulation: Simulation) -> None:
    """Refuse another threshold than that of the config, whatever clients the server names in the round."""
    if node.peers is not None and isinstance(simulation.federation, Scattered):
        # With data of their own it is the server that says how many clients there are.
        clients, known = len(simulation.federation), len(list(node.peers.glob("node-*.pub")))
        if known > clients:
            raise InputError(
                f"the server says there are {clients} clients, and peers has the keys of {known}: remove "
                "those of nodes that are no more"
            )
    if session.threshold != simulation.threshold:
        raise InputError(
            f"the server's threshold is {session.threshold}, and that of the config is {simulation.threshold}"
        )


def _check_signatures(folder: Path, session: Session, keys: dict[int, PublicKeys]) -> None:
    for client, one in keys.items():
        if not is_signed(folder / f"node-{client}.pub", one.message(session, client), one.signature):
            raise InputError(f"the keys that the server says are client {client}'s are not signed by it")


def _remember(
    memory: RecordDict, session: Session, stage: int, secrets: Secrets, keys: dict[int, PublicKeys]
) -> None:
    own = {"masks": secrets.masks, "shares": secrets.shares, "seed": secrets.seed}
    peers = {f"peer_{name}": value for name, value in keys_out(keys).items()}
    memory.config_records[_MEMORY] = ConfigRecord({**session._asdict(), "stage": stage, **own, **peers})


def _recall(memory: RecordDict, session: Session, stage: int) -> tuple[Secrets, dict[int, PublicKeys]]:
    """What was remembered, if it is of this round and this stage comes next."""
    found = memory.config_records.get(_MEMORY)
    if (
        found is None
        or found["stage"] != stage
        or any(found[name] != value for name, value in session._asdict().items())
    ):
        raise InputError("it has no secrets for this stage of the round; its node may have been restarted")
    own = Secrets(*(bytes(found[name]) for name in ("masks", "shares", "seed")))  # type: ignore[arg-type]
    peers = {name: found[f"peer_{name}"] for name in ("clients", *PublicKeys._fields)}
    return own, keys_in(ConfigRecord(peers))
