"""The protocol of secure aggregation, without a network.

After Bonawitz et al. (2017, "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
https://eprint.iacr.org/2017/281), with a mask between every two clients. In a round

    1. keys      every client makes two key pairs and a seed, and publishes the public keys
    2. shares    it splits the seed and the secret of its mask key into shares, one for each client, and sends
                 these through the server, encrypted for their receivers
    3. masked    it sends x_u + PRG(seed_u) + sum_{v > u} PRG(k_uv) - sum_{v < u} PRG(k_uv) modulo 2^64, with
                 k_uv the key that u and v agree on; in the sum over all clients the pairwise masks cancel
    4. unmask    clients reveal their share of the seed of each client whose vector arrived, and their share
                 of the mask key of each client whose vector did not; with `threshold` shares of each secret
                 the server removes the masks that are left in the sum

A client reveals one of its two shares of another client, never both, and does so once. With 2 * threshold
above the number of clients the server cannot collect enough shares of both kinds, whatever it tells each
client.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

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


class Participant:
    """A client in a round, with the public keys of all participants."""

    def __init__(
        self, session: Session, client: int, secrets: Secrets, keys: Mapping[int, PublicKeys]
    ) -> None:
        self.session, self.client, self.secrets, self.keys = session, client, secrets, dict(keys)
        if client not in keys or keys[client][:2] != secrets.public[:2]:
            raise ValueError("the server sent other keys as those of this client")
        if len({key for pair in keys.values() for key in pair[:2]}) != 2 * len(keys):
            raise ValueError("two clients have the same key")
        if not len(keys) < 2 * session.threshold <= 2 * len(keys):
            raise ValueError(f"a threshold of {session.threshold} among {len(keys)} clients is not safe")

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

    def mask(self, words: Words) -> Words:
        """Return a vector under this client's own mask and the masks that it shares with other clients."""
        masked = words.copy()
        primitives.add_mask(masked, _own_key(self.session, self.client, self.secrets.seed), 1)
        for other, keys in self.keys.items():
            if other != self.client:
                key = _pair_key(self.session, self.secrets.masks, keys.masks, self.client, other)
                primitives.add_mask(masked, key, _sign(self.client, other))
        return masked

    def reveal(self, sealed: Mapping[int, bytes], alive: Iterable[int]) -> dict[int, bytes]:
        """Return a share of each client: of its seed if its vector arrived, of its mask key otherwise."""
        arrived = set(alive)
        if not arrived <= set(self.keys) or len(arrived) < self.session.threshold:
            raise ValueError(f"{len(arrived)} vectors arrived, fewer than {self.session.threshold}")
        shares = {}
        for other in set(self.keys) & set(sealed):
            try:
                both = primitives.unseal(self._sealing_key(other, self.client), sealed[other])
            except BadShares:
                # The shares of other clients may be enough.
                continue
            middle = len(both) // 2
            shares[other] = both[:middle] if other in arrived else both[middle:]
        return shares

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
            key = _pair_key(session, secret, keys[other].masks, client, other)
            primitives.add_mask(total, key, -_sign(other, client))
    return total


def as_words(vector: np.ndarray) -> Words:
    """View signed integers as words modulo 2^64."""
    return vector.view(np.uint64)


def _own_key(session: Session, client: int, seed: bytes) -> bytes:
    return primitives.derive_key(seed, session.purpose("own mask", client))


def _pair_key(session: Session, secret: bytes, public: bytes, client: int, other: int) -> bytes:
    purpose = session.purpose("mask", min(client, other), max(client, other))
    return primitives.agree_key(secret, public, purpose)


def _sign(client: int, other: int) -> int:
    """Return 1 if a client adds the mask that it shares with another one, -1 if it subtracts it."""
    return 1 if client < other else -1
