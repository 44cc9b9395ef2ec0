"""The protocol of secure aggregation, without a network.

After Bonawitz et al. (2017, "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
https://eprint.iacr.org/2017/281), with a mask between each two clients. In a round

    1. keys      every client makes two key pairs and a seed, and publishes the public keys
    2. shares    it splits the seed and the secret of its masks' key into shares, one for each client,
                 and sends these through the server, encrypted to their receivers
    3. masked    it sends x_u + PRG(seed_u) + sum_{v > u} PRG(k_uv) - sum_{v < u} PRG(k_uv) modulo 2^64, with
                 k_uv the key that u and v agree on; in the sum of all clients the pairwise masks cancel
    4. unmask    of each client that sent its vector the others reveal their share of its seed, and of each
                 that did not their share of its mask key; with `threshold` shares of each the server removes
                 what is left of the masks

A client reveals one of the two shares of another client, never both, and does so once. With 2 * threshold
above the number of clients the server cannot collect enough of both kinds, whatever it tells whom.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from eunoe.flower.secure import primitives
from eunoe.flower.secure.primitives import BadShares, Words


class Session(NamedTuple):
    """A round that all its clients know by the same name, and how many of them must stay to its end."""

    run: str
    round: int
    threshold: int

    def purpose(self, what: str, *clients: int) -> bytes:
        """What a key is for: one thing, between these clients, in this round with this threshold."""
        return "/".join(["eunoe", *map(str, self), what, *map(str, clients)]).encode()


class PublicKeys(NamedTuple):
    """What a client publishes: a key for masks and one for encrypting shares, and its node's signature."""

    masks: bytes
    shares: bytes
    signature: bytes = b""

    def message(self, session: Session, client: int) -> bytes:
        """What is signed: these keys, of this client, in this round."""
        return session.purpose("keys", client) + b"/" + self.masks + self.shares


@dataclass(frozen=True)
class Secrets:
    """What a client keeps to itself in a round."""

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
    """A client in a round, with the public keys of all who take part."""

    def __init__(
        self, session: Session, client: int, secrets: Secrets, keys: Mapping[int, PublicKeys]
    ) -> None:
        self.session, self.client, self.secrets, self.keys = session, client, secrets, dict(keys)
        if client not in keys or keys[client][:2] != secrets.public[:2]:
            raise ValueError("the keys that the server says are this client's are not")
        if len({key for pair in keys.values() for key in pair[:2]}) != 2 * len(keys):
            raise ValueError("two clients have the same key")
        if not len(keys) < 2 * session.threshold <= 2 * len(keys):
            raise ValueError(f"a threshold of {session.threshold} among {len(keys)} clients is not safe")

    def shares(self) -> dict[int, bytes]:
        """For each client, itself included, its shares of this client's seed and mask key, encrypted."""
        clients, threshold = sorted(self.keys), self.session.threshold
        seeds, masks = (
            primitives.split(secret, threshold, len(clients))
            for secret in (self.secrets.seed, self.secrets.masks)
        )
        return {
            other: primitives.seal(self._sealing_key(self.client, other), seed + mask)
            for other, seed, mask in zip(clients, seeds, masks, strict=True)
        }

    def masked(self, words: Words) -> Words:
        """A vector under this client's own mask and those that it has in common with each other client."""
        hidden = words.copy()
        primitives.add_mask(hidden, _own_key(self.session, self.client, self.secrets.seed), 1)
        for other, keys in self.keys.items():
            if other != self.client:
                key = _pair_key(self.session, self.secrets.masks, keys.masks, self.client, other)
                primitives.add_mask(hidden, key, _sign(self.client, other))
        return hidden

    def revealed(self, sealed: Mapping[int, bytes], alive: Iterable[int]) -> dict[int, bytes]:
        """One share of each client: of its seed if its vector arrived, of its mask key if it did not."""
        there = set(alive)
        if not there <= set(self.keys) or len(there) < self.session.threshold:
            raise ValueError(f"{len(there)} vectors arrived, fewer than {self.session.threshold}")
        found = {}
        for other in set(self.keys) & set(sealed):
            try:
                both = primitives.unseal(self._sealing_key(other, self.client), sealed[other])
            except BadShares:
                # The others' shares may be enough.
                continue
            middle = len(both) // 2
            found[other] = both[:middle] if other in there else both[middle:]
        return found

    def _sealing_key(self, sender: int, receiver: int) -> bytes:
        other = receiver if sender == self.client else sender
        purpose = self.session.purpose("share", sender, receiver)
        return primitives.agreed_key(self.secrets.shares, self.keys[other].shares, purpose)


def unmasked(
    session: Session,
    total: Words,
    keys: Mapping[int, PublicKeys],
    alive: Iterable[int],
    revealed: Mapping[int, Mapping[int, bytes]],
) -> Words:
    """The sum of the vectors that arrived, from the sum of the masked ones and what clients revealed."""
    total, there = total.copy(), sorted(alive)
    for client in sorted(keys):
        shares = [found[client] for _, found in sorted(revealed.items()) if client in found]
        if len(shares) < session.threshold:
            raise BadShares(f"there are {len(shares)} shares of client {client}'s secret")
        secret = primitives.join(shares[: session.threshold])
        if client in there:
            primitives.add_mask(total, _own_key(session, client, secret), -1)
            continue
        if primitives.public_key(secret) != keys[client].masks:
            raise BadShares(f"the shares of client {client}'s key are wrong")
        for other in there:
            key = _pair_key(session, secret, keys[other].masks, client, other)
            primitives.add_mask(total, key, -_sign(other, client))
    return total


def as_words(vector: np.ndarray) -> Words:
    """Signed integers as words modulo 2^64."""
    return vector.view(np.uint64)


def _own_key(session: Session, client: int, seed: bytes) -> bytes:
    return primitives.derived_key(seed, session.purpose("own mask", client))


def _pair_key(session: Session, private: bytes, public: bytes, one: int, other: int) -> bytes:
    purpose = session.purpose("mask", min(one, other), max(one, other))
    return primitives.agreed_key(private, public, purpose)


def _sign(client: int, other: int) -> int:
    """Whether a client adds its common mask with another one, or subtracts it."""
    return 1 if client < other else -1
