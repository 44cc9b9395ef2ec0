"""A client's replies in the five stages of secure aggregation.

Its secrets must last from one stage to the next. They are in the memory of its SuperNode, never on disk. A
node that was restarted in between has no secrets left and is out of the round.

The server decides nothing that protects a client: the run, its rounds, the clients of a round and the
threshold follow from the node's config, and other clients' keys from its folder `peers`.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import torch
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from eunoe.config.schema import Config
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.flower.deploy.credentials import is_signed, sign_message
from eunoe.flower.node import Handler, NodeOptions, train_and_save
from eunoe.flower.secure import messages
from eunoe.flower.secure.history import History, run_identity, vector_digest
from eunoe.flower.secure.protocol import Participant, PublicKeys, Secrets, Session
from eunoe.flower.wire import encode_vectors
from eunoe.server.secure_sum import OutOfBound, encode_update
from eunoe.simulation.loop import select_clients

logger = logging.getLogger(__name__)
# The record with a node's secrets, and the stage that it has completed.
_MEMORY = "secure_aggregation"
_PUBLISHED, _SHARED, _SENT = 1, 2, 3


class Round:
    """A client's part in a round, from one message of the server to the reply."""

    def __init__(self, config: Config, node: NodeOptions, content: RecordDict, memory: RecordDict) -> None:
        self.config, self.node, self.content, self.memory = config, node, content, memory
        self.key, self.peer_keys = node_credentials(node)
        self.history, self.session = History(node.state, node.client), messages.decode_session(content)
        if self.session.run != run_identity(config):
            raise InputError("the server names another run than that of this node's config")
        if not 1 <= (round := self.session.round) <= config.rounds:
            raise InputError(f"the server orders round {round}; the config has {config.rounds} rounds")

    def publish_keys(self) -> RecordDict:
        """Make new secrets and reply with their public keys, signed by the node."""
        secrets, client = Secrets.new(), self.node.client
        self._remember(_PUBLISHED, secrets, {})
        keys = secrets.public
        keys = keys._replace(signature=sign_message(self.key, keys.message(self.session, client)))
        return RecordDict({"keys": messages.encode_keys({client: keys})})

    def share_secrets(self) -> RecordDict:
        """Split the secrets into shares, encrypted for each client."""
        secrets, _, _ = _recall(self.memory, self.session, _PUBLISHED)
        keys = messages.decode_keys(self.content.config_records["keys"])
        for client, entry in keys.items():
            if not self._is_signed(client, entry.message(self.session, client), entry.signature):
                raise InputError(f"the keys sent for client {client} are not signed by its node")
        shares = Participant(self.session, self.node.client, secrets, keys).shares()
        self.history.share(secrets)
        self._remember(_SHARED, secrets, keys)
        return RecordDict({"sealed": messages.encode_bytes(shares)})

    def send_masked(self) -> RecordDict:
        """Train, and reply with the update in fixed point under masks."""
        secrets, keys, _ = _recall(self.memory, self.session, _SHARED)
        peers = messages.decode_clients(self.content.config_records["peers"])
        participant = Participant(self.session, self.node.client, secrets, keys, peers)
        if (round := int(str(self.content.config_records["order"]["round"]))) != self.session.round:
            raise InputError(f"the server orders round {round} in round {self.session.round}")
        model = messages.broadcast_digest(self.content)
        self.history.train(self.session, model)
        done = train_and_save(self.config, self.node, self.content)
        self._check_cohort(done.simulation, keys)
        assert done.simulation.secure is not None
        try:
            aggregator = done.simulation.aggregator(done.broadcast)
            vector = encode_update(done.simulation.secure.fixed_point, aggregator, done.update).numpy()
        except OutOfBound as reason:
            # The reason contains a value of this client, which the server must not see.
            logger.warning("client %d leaves round %d: %s", self.node.client, round, reason)
            text = "its values exceed the bounds of secure_aggregation or are not finite; see its node's log"
            raise InputError(text) from None
        words = participant.mask(vector.view("uint64"), model)
        digest = vector_digest(done.broadcast.weights.parameters.numpy().tobytes(), vector.tobytes())
        # Two vectors under one mask would reveal their difference.
        self.history.mask(secrets, self.session, digest)
        self._remember(_SENT, secrets, keys, peers, digest)
        masked = encode_vectors({"sum": torch.from_numpy(words.view("int64"))})
        return RecordDict({"masked": masked, "numbers": MetricRecord({"keeps_state": int(done.keeps_state)})})

    def confirm_alive(self) -> RecordDict:
        """Sign the lists of keys and peers, and the clients whose vectors arrived according to the server."""
        participant = self._sent()
        statement = participant.statement(messages.decode_clients(self.content.config_records["alive"]))
        self.history.sign(participant.secrets, statement)
        signature = {self.node.client: sign_message(self.key, statement)}
        return RecordDict({"signature": messages.encode_bytes(signature)})

    def reveal_shares(self) -> RecordDict:
        """Reply with one share of each client if enough clients signed the same, and delete all secrets."""
        participant, records = self._sent(), self.content.config_records
        alive = messages.decode_clients(records["alive"])
        statement = participant.statement(alive)
        self._check_agreement(statement, alive, messages.decode_bytes(records["signatures"]))
        shares = participant.reveal(messages.decode_bytes(records["sealed"]), alive)
        vector = self.memory.config_records[_MEMORY]["vector"]
        assert isinstance(vector, bytes)
        assert self.config.secure_aggregation is not None
        limit = self.config.secure_aggregation.max_cohort_rounds or self.config.rounds
        # A client whose signature was not needed is bound to the statement as well.
        self.history.sign(participant.secrets, statement)
        self.history.reveal(self.session, vector, alive, limit)
        del self.memory.config_records[_MEMORY]
        return RecordDict({"shares": messages.encode_bytes(shares)})

    def _sent(self) -> Participant:
        """Return this client as it was when it sent its vector."""
        return Participant(self.session, self.node.client, *_recall(self.memory, self.session, _SENT))

    def _remember(
        self,
        stage: int,
        secrets: Secrets,
        keys: Mapping[int, PublicKeys],
        peers: Collection[int] = (),
        vector: bytes = b"",
    ) -> None:
        """Keep what the next stages need; `vector` is the digest of the vector that was sent."""
        kept = {"stage": stage, "peers": list(peers), "vector": vector, **vars(secrets)}
        known = messages.encode_keys(keys)
        self.memory.config_records[_MEMORY] = ConfigRecord({**self.session._asdict(), **kept, **known})

    def _check_cohort(self, simulation: Simulation, clients: Collection[int]) -> None:
        """Check the threshold and the clients of a round against the config and the known keys."""
        known, count = len(list(self.peer_keys.glob("node-*.pub"))), len(simulation.federation)
        if known != count:
            # With data = "own" the number of clients comes from the server.
            raise InputError(f"the federation has {count} clients, but peers has {known} keys")
        threshold = simulation.secure.threshold if simulation.secure else None
        if (named := self.session.threshold) != threshold:
            raise InputError(f"the server's threshold is {named}, but that of the config is {threshold}")
        # With noise the server draws the clients in secret.
        secret = (privacy := simulation.context.privacy) is not None and privacy.options.noise > 0
        if not secret and not set(clients) <= set(select_clients(simulation)):
            raise InputError(f"the server names other clients than those of round {self.session.round}")
        if len(clients) > simulation.context.participants:
            raise InputError(f"the server names {len(clients)} clients, more than take part in a round")

    def _check_agreement(self, statement: bytes, alive: Collection[int], signed: Mapping[int, bytes]) -> None:
        """Check that as many clients as the threshold requires signed the same statement."""
        signers = sum(
            client in alive and self._is_signed(client, statement, signature)
            for client, signature in signed.items()
        )
        if signers < (least := self.session.threshold):
            raise InputError(f"{signers} clients signed which vectors arrived, fewer than {least}")

    def _is_signed(self, client: int, message: bytes, signature: bytes) -> bool:
        """Return whether a client's node has signed a message, by its key in the folder `peers`."""
        return is_signed(self.peer_keys / f"node-{client}.pub", message, signature)


def _recall(
    memory: RecordDict, session: Session, stage: int
) -> tuple[Secrets, dict[int, PublicKeys], list[int]]:
    """Return the secrets, keys and peers of this round, if `stage` is the last that was completed."""
    record = memory.config_records.get(_MEMORY)
    expected = {**session._asdict(), "stage": stage}
    if record is None or any(record[name] != value for name, value in expected.items()):
        raise InputError("it has no secrets for this stage of the round; its node may have been restarted")
    own = Secrets(*(bytes(record[name]) for name in ("masks", "shares", "seed")))  # type: ignore[arg-type]
    return own, messages.decode_keys(record), list(record["peers"])  # type: ignore[arg-type]


def node_credentials(node: NodeOptions) -> tuple[Path, Path]:
    """Return the node's key and the folder with the public keys of all nodes."""
    if node.key is None or node.peers is None:
        raise InputError("secure_aggregation: add key=PATH of node-K.key and peers=FOLDER to --node-config")
    return node.key, node.peers


def _handler(reply: Callable[[Round], RecordDict]) -> Handler:
    return lambda *message: reply(Round(*message))


STAGES: dict[str, Handler] = {
    "query.keys": _handler(Round.publish_keys),
    "query.shares": _handler(Round.share_secrets),
    "train.masked": _handler(Round.send_masked),
    "query.confirm": _handler(Round.confirm_alive),
    "query.unmask": _handler(Round.reveal_shares),
}
