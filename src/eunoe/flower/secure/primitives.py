"""The cryptography of secure aggregation, from `cryptography`, with secret sharing from PyCryptodome.

Keys are agreed on by X25519 and HKDF, masks are key streams of ChaCha20, and what goes to another client
through the server is encrypted and authenticated by ChaCha20-Poly1305. Every key is used once. All follows
from secrets of 128 bits, the strength of X25519 and the size of what Shamir's scheme shares there.
"""

from secrets import token_bytes

import numpy as np
from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

Words = NDArray[np.uint64]
KEY_BYTES, SECRET_BYTES = 32, 16
# The number of a share, which comes before it.
_NUMBER_BYTES = 2
# Words of a mask that are made at a time (8 MB).
_BLOCK = 2**20


class BadShares(Exception):
    """What another client sent cannot be opened, or its shares do not fit together."""


def new_secret() -> bytes:
    """A secret that can be shared."""
    return token_bytes(SECRET_BYTES)


def _private_key(secret: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(derived_key(secret, b"eunoe/private key"))


def public_key(secret: bytes) -> bytes:
    """The public key whose private key follows from a secret."""
    return _private_key(secret).public_key().public_bytes_raw()


def agreed_key(secret: bytes, public: bytes, purpose: bytes) -> bytes:
    """The key for one purpose that two have in common, given the secret of one and the other's public key."""
    return derived_key(_private_key(secret).exchange(X25519PublicKey.from_public_bytes(public)), purpose)


def derived_key(secret: bytes, purpose: bytes) -> bytes:
    """The key for one purpose that follows from a secret."""
    return HKDF(SHA256(), KEY_BYTES, None, purpose).derive(secret)


def add_mask(words: Words, key: bytes, sign: int) -> None:
    """Add a key's mask to a vector modulo 2^64, or subtract it."""
    # A key makes one stream only, so its nonce may be 0.
    stream = Cipher(ChaCha20(key, bytes(16)), None).encryptor()
    for first in range(0, len(words), _BLOCK):
        part = words[first : first + _BLOCK]
        mask = np.frombuffer(stream.update(bytes(part.nbytes)), "<u8")
        if sign > 0:
            part += mask
        else:
            part -= mask


def seal(key: bytes, message: bytes) -> bytes:
    """Encrypt and authenticate the only message of a key."""
    return ChaCha20Poly1305(key).encrypt(bytes(12), message, None)


def unseal(key: bytes, sealed: bytes) -> bytes:
    """Decrypt a message; BadShares if it is not what was sealed."""
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), sealed, None)
    except InvalidTag:
        raise BadShares("a message from another client was changed on its way") from None


def split(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """Shares of a secret, of which `threshold` give it back and fewer say nothing."""
    shares = Shamir.split(threshold, count, secret, False)
    return [number.to_bytes(_NUMBER_BYTES, "big") + share for number, share in shares]


def join(shares: list[bytes]) -> bytes:
    """The secret that was shared; BadShares if these cannot be shares of one."""
    pairs = [(int.from_bytes(share[:_NUMBER_BYTES], "big"), share[_NUMBER_BYTES:]) for share in shares]
    try:
        secret: bytes = Shamir.combine(pairs, False)
    except (ValueError, TypeError):
        raise BadShares("the shares of a secret do not fit together") from None
    return secret
