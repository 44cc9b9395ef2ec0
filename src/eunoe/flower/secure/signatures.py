"""Signatures of nodes, by which clients know each other's keys although the server hands them out."""

from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_private_key

from eunoe.errors import InputError
from eunoe.flower.credentials import read_node_key

_SCHEME = ECDSA(SHA384())


def signed(path: Path, message: bytes) -> bytes:
    """The signature of a message with the node's private key in a file."""
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} is not a node's private key ({type(error).__name__})") from None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise InputError(f"{path} is not the key of a node")
    return key.sign(message, _SCHEME)


def is_signed(path: Path, message: bytes, signature: bytes) -> bool:
    """Whether a signature is that of the node with the public key in a file."""
    key = load_pem_public_key(read_node_key(path))
    if not isinstance(key, EllipticCurvePublicKey):
        raise InputError(f"{path} is not the key of a node")
    try:
        key.verify(signature, message, _SCHEME)
    except InvalidSignature:
        return False
    return True
