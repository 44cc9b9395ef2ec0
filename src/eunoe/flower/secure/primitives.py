"""The cryptography of secure aggregation, from `cryptography`, with secret sharing from PyCryptodome.

Keys are agreed on by X25519 and HKDF, masks are key streams of ChaCha20, and messages to another client
through the server are encrypted and authenticated by ChaCha20-Poly1305. Every key is used once. All keys are
derived from secrets of 128 bits: the strength of X25519, and the size of secrets in PyCryptodome's Shamir
scheme.
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
# A share is preceded by its number.
_NUMBER_BYTES = 2
# Words of a mask that are generated at a time (8 MB).
_BLOCK = 2**20


class BadShares(Exception):
    """A message of another client cannot be decrypted, or shares do not belong together."""


def new_secret() -> bytes:
    """Return a new random secret that can be split into shares."""
    return token_bytes(SECRET_BYTES)


def _private_key(secret: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(derive_key(secret, b"eunoe/private key"))


def public_key(secret: bytes) -> bytes:
    """Return the public key of the private key derived from a secret."""
    return _private_key(secret).public_key().public_bytes_raw()


def agree_key(secret: bytes, public: bytes, purpose: bytes) -> bytes:
    """Return the key that two clients share for one purpose, from one's secret and the other's public key."""
    return derive_key(_private_key(secret).exchange(X25519PublicKey.from_public_bytes(public)), purpose)


def derive_key(secret: bytes, purpose: bytes) -> bytes:
    """Derive the key for one purpose from a secret."""
    return HKDF(SHA256(), KEY_BYTES, None, purpose).derive(secret)


def add_mask(words: Words, key: bytes, sign: int) -> None:
    """Add (sign 1) or subtract (sign -1) a key's mask to a vector, in place and modulo 2^64."""
    # A key is used for one stream only, so its nonce may be 0.
    stream = Cipher(ChaCha20(key, bytes(16)), None).encryptor()
    for first in range(0, len(words), _BLOCK):
        part = words[first : first + _BLOCK]
        mask = np.frombuffer(stream.update(bytes(part.nbytes)), "<u8")
        if sign > 0:
            part += mask
        else:
            part -= mask


def seal(key: bytes, message: bytes) -> bytes:
    """Encrypt and authenticate a message; each key is used for one message."""
    return ChaCha20Poly1305(key).encrypt(bytes(12), message, None)


def unseal(key: bytes, sealed: bytes) -> bytes:
    """Decrypt a message; raise BadShares if it was changed."""
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), sealed, None)
    except InvalidTag:
        raise BadShares("a message from another client was altered") from None


def split(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """Split a secret into shares: any `threshold` of them give it back, fewer reveal nothing."""
    shares = Shamir.split(threshold, count, secret, False)
    return [number.to_bytes(_NUMBER_BYTES, "big") + share for number, share in shares]


def join(shares: list[bytes]) -> bytes:
    """Recover a secret from its shares; raise BadShares if they do not belong together."""
    pairs = [(int.from_bytes(share[:_NUMBER_BYTES], "big"), share[_NUMBER_BYTES:]) for share in shares]
    try:
        secret: bytes = Shamir.combine(pairs, False)
    except (ValueError, TypeError):
        raise BadShares("the shares of a secret do not belong together") from None
    return secret
