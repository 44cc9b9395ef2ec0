"""The protocol of secure aggregation, without a network.

After Bonawitz et al. (2017, "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
https://eprint.iacr.org/2017/281), with a mask between every two clients. In a round

    1. keys      every client makes two key pairs and a seed, and publishes the public keys
    2. shares    it splits the seed and the secret of its mask key into shares, one for each client, and sends
                 these through the server, encrypted for their receivers
    3. masked    it sends x_u + PRG(seed_u) + sum_{v > u} PRG(k_uv) - sum_{v < u} PRG(k_uv) modulo 2^64, with
                 k_uv the key that u and v agree on; in the sum over all clients the pairwise masks cancel
    4. confirm   it signs the list of keys, the clients in stage 3 and those whose vectors arrived, once
    5. unmask    with `threshold` signatures under the same lists, clients reveal their share of the seed of
                 each client whose vector arrived, and their share of the mask key of each client whose vector
                 did not; with `threshold` shares of each secret the server removes the masks that are left

k_uv also depends on the model that u and v were sent: masks cancel only between clients with the same model.
The secrets of a client serve one list of keys, one vector and one signed statement. What follows from this
against a server that deviates from the protocol is in docs/privacy.md.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from eunoe.flower.secure import primitives
from eunoe.flower.secure.primitives import BadShares, Words


class Session(NamedTuple):
    """Identifies a round for all its clients; `threshold` of them must stay until its end."""

    run: str
    round: int
    threshold: int

    def purpose(self, what: str, *clients: int) -> bytes:
        """Return the purpose of a key, which binds it to this round, this threshold and these clients."""
        return "/".join(["eunoe", *map(str, self), what, *map(str, clients)]).encode()


class PublicKeys(NamedTuple):
    """What a client publishes: a key for masks, a key for encrypting shares, and its node's signature."""

    masks: bytes
    shares: bytes
    signature: bytes = b""

    def message(self, session: Session, client: int) -> bytes:
        """Return what is signed: these keys, of this client, in this round."""
        return session.purpose("keys", client) + b"/" + self.masks + self.shares


@dataclass(frozen=True)
class Secrets:
    """The secrets of a client in one round."""

    masks: bytes
    shares: bytes
    seed: bytes

    @classmethod
    def new(cls) -> "Secrets":
        return cls(*(primitives.new_secret() for _ in range(3)))

    @property
    def public(self) -> PublicKeys:
        return PublicKeys(primitives.public_key(self.masks), primitives.public_key(self.shares))

    @property
    def name(self) -> str:
        """A public name of these secrets."""
        return hashlib.sha256(self.public.masks + self.public.shares).hexdigest()


class Participant:
    """A client in a round, with the keys of all clients; its `peers` share masks in it, by default all do."""

    def __init__(
        self,
        session: Session,
        client: int,
        secrets: Secrets,
        keys: Mapping[int, PublicKeys],
        peers: Collection[int] | None = None,
    ) -> None:
        self.session, self.client, self.secrets, self.keys = session, client, secrets, dict(keys)
        self.peers = set(keys if peers is None else peers)
        if client not in keys or keys[client][:2] != secrets.public[:2]:
            raise ValueError("the server sent other keys as those of this client")
        if len({key for pair in keys.values() for key in pair[:2]}) != 2 * len(keys):
            raise ValueError("two clients have the same key")
        if not {client} <= self.peers <= set(keys):
            raise ValueError("the server named peers without this client or without keys")
        if not len(keys) < 2 * session.threshold <= 2 * len(self.peers):
            raise ValueError(f"a threshold of {session.threshold} of {len(self.peers)} clients is not safe")

    def shares(self) -> dict[int, bytes]:
        """Return the encrypted shares of this client's seed and mask key for each client, itself included."""
        clients, threshold = sorted(self.keys), self.session.threshold
        seeds, masks = (
            primitives.split(secret, threshold, len(clients))
            for secret in (self.secrets.seed, self.secrets.masks)
        )
        return {
            other: primitives.seal(self._sealing_key(self.client, other), seed + mask)
            for other, seed, mask in zip(clients, seeds, masks, strict=True)
        }

    def mask(self, words: Words, model: bytes = b"") -> Words:
        """Return a vector under this client's masks; `model` is the digest of what it was trained from."""
        masked = words.copy()
        primitives.add_mask(masked, _own_key(self.session, self.client, self.secrets.seed), 1)
        for other in self.peers - {self.client}:
            public = self.keys[other].masks
            key = _pair_key(self.session, self.secrets.masks, public, self.client, other, model)
            # The client with the smaller number adds the mask, the other one subtracts it.
            primitives.add_mask(masked, key, 1 if self.client < other else -1)
        return masked

    def statement(self, alive: Collection[int]) -> bytes:
        """Return what this client signs if the vectors of these clients arrived."""
        arrived = self._check_alive(alive)
        keys = [[client, keys.masks.hex(), keys.shares.hex()] for client, keys in sorted(self.keys.items())]
        content = json.dumps([keys, sorted(self.peers), sorted(arrived)]).encode()
        return self.session.purpose("statement") + b"/" + hashlib.sha256(content).digest()

    def reveal(self, sealed: Mapping[int, bytes], alive: Collection[int]) -> dict[int, bytes]:
        """Return a share of each client: of its seed if its vector arrived, of its mask key otherwise."""
        arrived = self._check_alive(alive)
        shares = {}
        for other in self.peers & set(sealed):
            try:
                both = primitives.unseal(self._sealing_key(other, self.client), sealed[other])
            except BadShares:
                # The shares of other clients may be enough.
                continue
            middle = len(both) // 2
            shares[other] = both[:middle] if other in arrived else both[middle:]
        return shares

    def _check_alive(self, alive: Collection[int]) -> set[int]:
        arrived = set(alive)
        if self.client not in arrived:
            raise ValueError("the server says that this client's vector did not arrive")
        if not arrived <= self.peers:
            raise ValueError("the server says that vectors arrived of clients that are not peers")
        if len(arrived) < self.session.threshold:
            raise ValueError(f"{len(arrived)} vectors arrived, fewer than {self.session.threshold}")
        return arrived

    def _sealing_key(self, sender: int, receiver: int) -> bytes:
        other = receiver if sender == self.client else sender
        purpose = self.session.purpose("share", sender, receiver)
        return primitives.agree_key(self.secrets.shares, self.keys[other].shares, purpose)


def unmask(
    session: Session,
    total: Words,
    keys: Mapping[int, PublicKeys],
    alive: Iterable[int],
    revealed: Mapping[int, Mapping[int, bytes]],
    model: bytes = b"",
) -> Words:
    """Return the sum of the vectors that arrived, from the masked sum and the revealed shares."""
    total, arrived = total.copy(), sorted(alive)
    for client in sorted(keys):
        shares = [by_client[client] for _, by_client in sorted(revealed.items()) if client in by_client]
        if len(shares) < session.threshold:
            raise BadShares(f"there are {len(shares)} shares of client {client}'s secret")
        secret = primitives.join(shares[: session.threshold])
        if client in arrived:
            primitives.add_mask(total, _own_key(session, client, secret), -1)
            continue
        if primitives.public_key(secret) != keys[client].masks:
            raise BadShares(f"the shares of client {client}'s key are wrong")
        for other in arrived:
            key = _pair_key(session, secret, keys[other].masks, client, other, model)
            primitives.add_mask(total, key, -1 if other < client else 1)
    return total


def _own_key(session: Session, client: int, seed: bytes) -> bytes:
    return primitives.derive_key(seed, session.purpose("own mask", client))


def _pair_key(session: Session, secret: bytes, public: bytes, client: int, other: int, model: bytes) -> bytes:
    purpose = session.purpose("mask", min(client, other), max(client, other))
    return primitives.agree_key(secret, public, purpose + b"/" + model)
