"""Honest nodes in this process, and a server that may do anything with them.

The nodes have real handlers, keys and histories; only their training is replaced. The server keeps all that
it receives, and `exposed` returns what follows from it.
"""

import copy
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from flwr.app import RecordDict

from eunoe.config.schema import Config, make_config
from eunoe.engines.simulation import Simulation
from eunoe.flower.deploy.credentials import make_node_key, sign_message
from eunoe.flower.node import NodeOptions, Trained
from eunoe.flower.secure import client as handlers
from eunoe.flower.secure import primitives
from eunoe.flower.secure.history import run_identity
from eunoe.flower.secure.messages import (
    broadcast_digest,
    decode_bytes,
    decode_keys,
    encode_bytes,
    encode_clients,
    encode_keys,
    encode_session,
)
from eunoe.flower.secure.primitives import Words
from eunoe.flower.secure.protocol import Participant, PublicKeys, Secrets, Session, unmask
from eunoe.flower.wire import decode_order, encode_broadcast, encode_order
from eunoe.server.secure_sum import CLIENTS, encode_update
from eunoe.server.updates import Broadcast, Update
from eunoe.simulation.build import UserObjects, build_simulation

ROUNDS = 3


@cache
def simulation_of(clients: int, threshold: float) -> tuple[Config, Simulation]:
    config = make_config(
        {
            "data": "digits",
            "rounds": ROUNDS,
            "participation": 1.0,
            "partition": {"name": "iid", "clients": clients},
            "model": {"name": "mlp", "hidden": [1]},
            "secure_aggregation": {"threshold": threshold, "bound": 100.0},
            "probes": [],
        }
    )
    return config, build_simulation(config, UserObjects())


def make_keys(folder: Path, clients: int) -> Path:
    """Make a folder with the keys of all nodes."""
    for client in range(clients):
        make_node_key(folder, f"node-{client}")
    return folder


def lists_against(
    victim: int, clients: Collection[int], least: int
) -> tuple[list[int], dict[int, list[int]]]:
    """Return the victim's few peers, and whose vectors each client is told to have arrived.

    Of each of these peers enough clients are told that it dropped out, so that without checks they reveal
    its masks, and the seed of the victim.
    """
    others = [client for client in clients if client != victim]
    few = [victim, *others[: least - 1]]
    dropped: dict[int, set[int]] = {client: set() for client in others}
    for peer in few[1:]:
        able = [client for client in others if len(dropped[client]) < len(clients) - least]
        for client in sorted(able, key=lambda one: (len(dropped[one]), one == peer))[:least]:
            dropped[client].add(peer)
    alive = {client: [one for one in clients if one not in lost] for client, lost in dropped.items()}
    return few, {victim: few, **alive}


class Nodes:
    """The nodes of a federation. `ask` delivers a message to one of them and returns its reply."""

    def __init__(self, folder: Path, keys: Path, clients: int, threshold: float) -> None:
        self.config, self.simulation = simulation_of(clients, threshold)
        assert self.simulation.secure is not None
        self.fixed_point, self.threshold = (
            self.simulation.secure.fixed_point,
            self.simulation.secure.threshold,
        )
        self.clients, self.keys = range(clients), keys
        self.memory = {client: RecordDict() for client in self.clients}
        self.options = {
            client: NodeOptions.model_validate(
                {"client": client, "state": folder, "key": keys / f"node-{client}.key", "peers": keys}
            )
            for client in self.clients
        }

    def train(self, config: Config, node: NodeOptions, content: RecordDict) -> Trained:
        """Return an update that follows from the client, the round and the model, instead of training."""
        broadcast = decode_order(content).broadcast
        update = self.update(node.client, broadcast)
        return Trained(self.simulation.in_round(broadcast.round), broadcast, update, False)

    def update(self, client: int, broadcast: Broadcast) -> Update:
        start = broadcast.weights
        noise = torch.Generator().manual_seed(1000 * broadcast.round + client)
        parameters = start.parameters + torch.randn(start.parameters.shape, generator=noise)
        weights = type(start)(parameters, start.float_buffers, start.int_buffers)
        size = self.simulation.federation.size(client)
        return Update(client, size, weights, {}, 3, 2.0, 1.0, size, size)

    def vector(self, client: int, broadcast: Broadcast) -> Words:
        """Return what a client sends under its masks."""
        aggregator = self.simulation.in_round(broadcast.round).aggregator(broadcast)
        vector = encode_update(self.fixed_point, aggregator, self.update(client, broadcast))
        return vector.numpy().view(np.uint64)

    def ask(self, client: int, kind: str, content: RecordDict) -> RecordDict:
        """Deliver a message; memory changes only if the node replies, as Flower's does."""
        memory = copy.deepcopy(self.memory[client])
        reply = handlers.STAGES[kind](self.config, self.options[client], content, memory)
        self.memory[client] = memory
        return reply


class Sent(NamedTuple):
    """A masked vector: whose it is, the keys and peers that it was masked with, and its model."""

    client: int
    keys: Mapping[int, PublicKeys]
    peers: frozenset[int]
    change: float
    words: Words


class Server:
    """A server that keeps everything. `colluders` give it their secrets and sign what it likes."""

    def __init__(self, nodes: Nodes, colluders: Collection[int] = ()) -> None:
        self.nodes, self.colluders = nodes, set(colluders)
        self.session = Session(run_identity(nodes.config), 1, nodes.threshold)
        # The newest keys, and all that were ever published.
        self.keys: dict[int, PublicKeys] = {}
        self.published: dict[int, list[PublicKeys]] = defaultdict(list)
        # What each client's keys stand for: known to the test, and to the server for colluders only.
        self.secrets: dict[bytes, Secrets] = {}
        # The newest encrypted shares by sender and receiver; and whose keys each of them is about.
        self.sealed: dict[int, dict[int, bytes]] = {}
        self.about: dict[bytes, bytes] = {}
        self.sent: list[Sent] = []
        self.signatures: dict[bytes, dict[int, bytes]] = defaultdict(dict)
        # Shares by the key of their owner and their kind.
        self.shares: dict[tuple[bytes, str], set[bytes]] = defaultdict(set)
        self.joined: set[tuple[bytes, str]] = set()

    def _ask(self, client: int, kind: str, **records: Any) -> RecordDict:
        content = RecordDict({"session": encode_session(self.session), **records})
        return self.nodes.ask(client, kind, content)

    def publish(self, client: int) -> None:
        reply = self._ask(client, "query.keys")
        keys = decode_keys(reply.config_records["keys"])[client]
        self.keys[client] = keys
        self.published[client].append(keys)
        record = self.nodes.memory[client].config_records["secure_aggregation"]
        self.secrets[keys.masks] = Secrets(*(bytes(record[name]) for name in ("masks", "shares", "seed")))

    def share(self, client: int, keys: Mapping[int, PublicKeys] | None = None) -> None:
        keys = dict(self.keys if keys is None else keys)
        reply = self._ask(client, "query.shares", keys=encode_keys(keys))
        self.sealed[client] = decode_bytes(reply.config_records["sealed"])
        for receiver, sealed in self.sealed[client].items():
            self.about[sealed] = keys[client].masks
            if receiver in self.colluders:
                # A colluder reads both shares.
                secrets = self.secrets[keys[receiver].masks]
                one = Participant(self.session, receiver, secrets, keys)
                both = primitives.unseal(one._sealing_key(client, receiver), sealed)
                for kind, part in (("seed", both[: len(both) // 2]), ("mask", both[len(both) // 2 :])):
                    self.shares[keys[client].masks, kind].add(part)

    def broadcast(self, change: float = 0.0) -> Broadcast:
        weights = self.nodes.simulation.model.weights.copy()
        weights.parameters[0] += change
        return Broadcast(self.session.round, weights, {})

    def train(self, client: int, peers: Iterable[int] | None = None, change: float = 0.0) -> None:
        """Ask for a masked vector, from a model with another first weight."""
        peers = list(self.sealed if peers is None else peers)
        records = encode_broadcast(self.broadcast(change))
        order = encode_order("states", self.session.round, None)
        reply = self._ask(client, "train.masked", **records, order=order, peers=encode_clients(peers))
        words = reply.array_records["masked"]["sum"].numpy().view(np.uint64)
        # The keys that it was sent are in its memory.
        _, keys, _ = handlers._recall(self.nodes.memory[client], self.session, handlers._SENT)
        self.sent.append(Sent(client, keys, frozenset(peers), change, words))

    def confirm(self, client: int, alive: Iterable[int]) -> None:
        statement = self.statement(client, alive)
        reply = self._ask(client, "query.confirm", alive=encode_clients(alive))
        self.signatures[statement][client] = decode_bytes(reply.config_records["signature"])[client]

    def statement(self, client: int, alive: Iterable[int]) -> bytes:
        """Return what a client would sign; a server can compute it from what it has sent."""
        secrets, keys, peers = handlers._recall(self.nodes.memory[client], self.session, handlers._SENT)
        return Participant(self.session, client, secrets, keys, peers).statement(list(alive))

    def reveal(
        self,
        client: int,
        alive: Iterable[int],
        signatures: Mapping[int, bytes] | None = None,
        sealed: Mapping[int, bytes] | None = None,
    ) -> dict[int, bytes]:
        """Ask for shares, by default with all signatures that the server has or can get for this."""
        alive = list(alive)
        if signatures is None:
            statement = self.statement(client, alive)
            signatures = dict(self.signatures[statement])
            for one in self.colluders & set(alive):
                signatures[one] = sign_message(self.nodes.keys / f"node-{one}.key", statement)
        if sealed is None:
            sealed = {sender: shares[client] for sender, shares in self.sealed.items() if client in shares}
        reply = self._ask(
            client,
            "query.unmask",
            **{"alive": encode_clients(alive), "signatures": encode_bytes(signatures)},
            sealed=encode_bytes(sealed),
        )
        shares = decode_bytes(reply.config_records["shares"])
        for owner, share in shares.items():
            self.shares[self.about[sealed[owner]], "seed" if owner in alive else "mask"].add(share)
        return shares

    def knows(self, kind: str, keys: PublicKeys) -> bool:
        """Whether the server can join the shares of a secret; if so it must be the right one."""
        name = keys.masks, kind
        if name not in self.joined:
            shares = {share[:2]: share for share in self.shares.get(name, ())}
            if len(shares) < self.session.threshold:
                return False
            secret = primitives.join([*shares.values()][: self.session.threshold])
            true = self.secrets[keys.masks]
            assert secret == (true.seed if kind == "seed" else true.masks)
            self.joined.add(name)
        return True

    def exposed(self) -> list[set[int]]:
        """Return the sets of honest clients of which the server can read the sum of what they sent.

        Vectors are connected by masks that the server does not know. It can read the sum over a connected
        set if it knows all seeds and every unknown mask is in it twice.
        """
        honest = [sent for sent in self.sent if sent.client not in self.colluders]
        masks = [self._unknown_masks(sent) for sent in honest]
        owners = {mask: [k for k, known in enumerate(masks) if mask in known] for mask in set().union(*masks)}
        readable, left = [], set(range(len(honest)))
        while left:
            component, queue = set(), {left.pop()}
            while queue:
                k = queue.pop()
                component.add(k)
                queue |= {other for mask in masks[k] for other in owners[mask]} - component
            left -= component
            twice = all(len(owners[mask]) == 2 for k in component for mask in masks[k])
            if twice and all(self.knows("seed", honest[k].keys[honest[k].client]) for k in component):
                readable.append({honest[k].client for k in component})
        return readable

    def _unknown_masks(self, sent: Sent) -> set[tuple[frozenset[bytes], float]]:
        """Return the masks of a vector that the server does not know: between which keys, by which model."""
        own = sent.keys[sent.client]
        if self.knows("mask", own):
            return set()
        others = [sent.keys[other] for other in sent.peers - {sent.client} - self.colluders]
        return {
            (frozenset({own.masks, other.masks}), sent.change)
            for other in others
            if not self.knows("mask", other)
        }

    def unmask(self, alive: Iterable[int], revealed: Mapping[int, Mapping[int, bytes]]) -> Words | None:
        """Return the sum over these clients as the true server computes it; None if it is refused."""
        alive = list(alive)
        newest = {sent.client: sent for sent in self.sent}
        total = np.sum([newest[client].words for client in alive], axis=0, dtype=np.uint64)
        peers = {client: self.keys[client] for client in self.sealed}
        model = broadcast_digest(RecordDict({**encode_broadcast(self.broadcast())}))
        words = unmask(self.session, total, peers, alive, revealed, model)
        sums = self.nodes.fixed_point.decode(torch.from_numpy(words.view(np.int64)))
        return words if float(sums[CLIENTS]) == len(alive) else None

    def true_sum(self, alive: Iterable[int]) -> Words:
        vectors = [self.nodes.vector(client, self.broadcast()) for client in alive]
        return np.sum(vectors, axis=0, dtype=np.uint64)
