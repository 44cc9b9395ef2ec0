"""Credentials of a federation: the server's TLS certificate, a key pair per node, the operator's signing key.

A node authenticates with an elliptic-curve key in OpenSSH format (what Flower reads); all parties verify the
server's certificate against the authority's. Every private file is readable by its owner only.
"""

import base64
import hashlib
import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from eunoe.errors import InputError

LOOPBACK = ("127.0.0.1", "localhost")
_PART = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
# The last part must not be a number: that would be a mistyped address.
_HOST_NAME = re.compile(rf"(\*\.)?({_PART}\.)*(?!\d+$){_PART}", re.IGNORECASE | re.ASCII)


_NODE_SIGNATURE = ec.ECDSA(hashes.SHA384())


def write_private(path: Path, content: bytes) -> None:
    """Create a file that no other user can read at any time."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(
            f"{path} exists; credentials are never overwritten: remove it or use a new folder"
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def general_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """Return the entries of a certificate for a server's host names and addresses."""
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            if len(host) > 253 or not _HOST_NAME.fullmatch(host):
                raise InputError(
                    f"{host!r} is not a host name or address; use one such as fl.example.org or "
                    "192.0.2.7, without https:// and port, and punycode (xn--...) for non-ASCII letters"
                ) from None
            names.append(x509.DNSName(host))
    return names


def make_server_certificate(folder: Path, hosts: Sequence[str] = LOOPBACK, days: int = 365) -> None:
    """Write ca.crt, server.crt and server.key; `hosts` are the names and addresses that nodes use.

    The authority's private key is not stored: it signs nothing else.
    """
    names = general_names(hosts)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ca_key, server_key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    authority = _certificate("authority", ca_key, ca_key, days)
    server = (
        _certificate("server", server_key, ca_key, days)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    pem = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(folder / "server.key", pem)
    for name, certificate in (("ca.crt", authority), ("server.crt", server)):
        signed = certificate.sign(ca_key, hashes.SHA384())
        (folder / name).write_bytes(signed.public_bytes(Encoding.PEM))


def _certificate(
    role: str, key: ec.EllipticCurvePrivateKey, issuer: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    """Return a certificate of the authority or the server, to be signed by the authority's key."""
    now, public, is_authority = datetime.now(UTC), key.public_key(), key is issuer
    usage = x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    constraints = x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None)
    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(role))
        .issuer_name(_common_name("authority"))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # the nodes' clocks may run behind
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), critical=False
        )
        .add_extension(constraints, critical=True)
        .add_extension(usage, critical=True)
    )


def _common_name(role: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Eunoe federation {role}")])


def make_node_key(folder: Path, name: str) -> None:
    """Write NAME.key (stays on the node) and NAME.pub (for registration with the server)."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP384R1())
    write_private(
        folder / f"{name}.key", key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    )
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public + b"\n")


def read_node_key(path: Path) -> bytes:
    """Read the public key in NAME.pub, in the encoding in which Flower keeps it."""
    return _read_public_key(path).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def fingerprint(path: Path) -> str:
    """Return a public key's fingerprint, as `ssh-keygen -l` shows it."""
    key = _read_public_key(path).public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    digest = hashlib.sha256(base64.b64decode(key.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def sign_message(key_path: Path, message: bytes) -> bytes:
    """Sign a message with a node's private key."""
    key: ec.EllipticCurvePrivateKey
    key = _read_key(key_path, _load_private, ec.EllipticCurvePrivateKey, "a node's private key")
    return key.sign(message, _NODE_SIGNATURE)


def is_signed(key_path: Path, message: bytes, signature: bytes) -> bool:
    """Return whether a signature was made by the node with this public key."""
    try:
        _read_public_key(key_path).verify(signature, message, _NODE_SIGNATURE)
    except InvalidSignature:
        return False
    return True


def make_signing_key(path: Path) -> ed25519.Ed25519PrivateKey:
    """Create the operator's key; nodes run only apps signed with it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ed25519.Ed25519PrivateKey.generate()
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    return key


def read_signing_key(path: Path) -> ed25519.Ed25519PrivateKey:
    """Read the operator's key."""
    key: ed25519.Ed25519PrivateKey
    key = _read_key(path, _load_private, ed25519.Ed25519PrivateKey, "a signing key of eunoe flower init")
    return key


def key_name(key: ed25519.Ed25519PublicKey) -> str:
    """Return the identifier of a signing key in trusted-entities.yaml."""
    return f"fpk_{hashlib.sha256(key.public_bytes_raw()).hexdigest()[:32]}"


def trusted_entities(key: ed25519.Ed25519PublicKey) -> str:
    """Return the content of trusted-entities.yaml, which makes a SuperNode trust this key."""
    return f"{key_name(key)}: {key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()}\n"


def _load_private(content: bytes) -> object:
    return load_ssh_private_key(content, None)


def _read_public_key(path: Path) -> ec.EllipticCurvePublicKey:
    key: ec.EllipticCurvePublicKey
    key = _read_key(path, load_ssh_public_key, ec.EllipticCurvePublicKey, "a node's public key")
    return key


def _read_key(path: Path, load: Callable[[bytes], object], kind: type, description: str) -> Any:
    try:
        key = load(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        # Without the error's text: on a node this message goes to the server.
        raise InputError(f"{path} is not {description} ({type(error).__name__})") from None
    if not isinstance(key, kind):
        raise InputError(f"{path} is not {description}")
    return key
