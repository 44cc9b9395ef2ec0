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
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from eunoe.errors import EunoeError, InputError
from eunoe.system.files import make_folder, read_text

LOOPBACK = ("127.0.0.1", "localhost")
# How long the server's certificate is valid.
DAYS = 365
_PART = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
# The last part must not be a number: that would be a mistyped address.
_HOST_NAME = re.compile(rf"(\*\.)?({_PART}\.)*(?!\d+$){_PART}", re.IGNORECASE | re.ASCII)
_NODE_SIGNATURE = ec.ECDSA(hashes.SHA384())
_load_private = partial(serialization.load_ssh_private_key, password=None)
# Uses of a certificate that neither the authority nor the server needs.
_OTHER_USES = (
    *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("encipher_only", "decipher_only"),
)


def general_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """Return the entries of a certificate for a server's host names and addresses."""
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            if len(host) > 253 or not _HOST_NAME.fullmatch(host):
                form = "without https:// and port, and with punycode (xn--...) for non-ASCII letters"
                raise InputError(f"{host!r} is not a host name or address: pass one {form}") from None
            names.append(x509.DNSName(host))
    return names


def make_server_certificate(folder: Path, hosts: Sequence[str] = LOOPBACK) -> None:
    """Write ca.crt, server.crt and server.key; `hosts` are the names and addresses that nodes use.

    The authority's private key is not stored: it signs nothing else.
    """
    names = general_names(hosts)
    ca_key, server_key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    server = (
        _certificate("server", server_key, ca_key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    _write_private(folder / "server.key", server_key, PrivateFormat.PKCS8)
    for name, certificate in (("ca", _certificate("authority", ca_key, ca_key)), ("server", server)):
        signed = certificate.sign(ca_key, hashes.SHA384())
        (folder / f"{name}.crt").write_bytes(signed.public_bytes(Encoding.PEM))


def _certificate(
    role: str, key: ec.EllipticCurvePrivateKey, issuer: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """Return a certificate of the authority or the server, to be signed by the authority's key."""
    now, public, is_authority = datetime.now(UTC), key.public_key(), key is issuer
    uses = {"key_cert_sign": is_authority, "crl_sign": is_authority, "digital_signature": not is_authority}
    constraints = x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None)
    authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(role))
        .issuer_name(_common_name("authority"))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # the nodes' clocks may run behind
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(authority_key, critical=False)
        .add_extension(constraints, critical=True)
        .add_extension(x509.KeyUsage(**dict.fromkeys(_OTHER_USES, False), **uses), critical=True)
    )


def _common_name(role: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Eunoe federation {role}")])


def make_node_key(folder: Path, name: str) -> None:
    """Write NAME.key (stays on the node) and NAME.pub (for registration with the server)."""
    key = ec.generate_private_key(ec.SECP384R1())
    _write_private(folder / f"{name}.key", key)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public + b"\n")


def read_node_key(path: Path) -> bytes:
    """Read the public key in NAME.pub, in the encoding in which Flower keeps it."""
    return _read_public_key(path).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def fingerprint(path: Path) -> str:
    """Return a public key's fingerprint, as `ssh-keygen -l` shows it."""
    digest = serialization.ssh_key_fingerprint(_read_public_key(path), hashes.SHA256())
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def sign_message(key_path: Path, message: bytes) -> bytes:
    """Sign a message with a node's private key."""
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
    key = ed25519.Ed25519PrivateKey.generate()
    _write_private(path, key)
    return key


def read_signing_key(path: Path) -> ed25519.Ed25519PrivateKey:
    """Read the operator's key."""
    return _read_key(path, _load_private, ed25519.Ed25519PrivateKey, "a signing key of eunoe flower init")


def key_name(key: ed25519.Ed25519PublicKey) -> str:
    """Return the identifier of a signing key in trusted-entities.yaml."""
    return f"fpk_{hashlib.sha256(key.public_bytes_raw()).hexdigest()[:32]}"


def trusted_entities(key: ed25519.Ed25519PublicKey) -> str:
    """Return the content of trusted-entities.yaml, which makes a SuperNode trust this key."""
    return f"{key_name(key)}: {key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()}\n"


def _read_public_key(path: Path) -> ec.EllipticCurvePublicKey:
    kind = ec.EllipticCurvePublicKey
    return _read_key(path, serialization.load_ssh_public_key, kind, "a node's public key")


def _read_key(path: Path, load: Callable[[bytes], object], kind: type, description: str) -> Any:
    try:
        key = load(read_text(path).encode())
    except (OSError, ValueError, EunoeError, UnsupportedAlgorithm) as error:
        # Without the error's text: on a node this message goes to the server.
        raise InputError(f"{path} is not {description} ({type(error).__name__})") from None
    if not isinstance(key, kind):
        raise InputError(f"{path} is not {description}")
    return key


def _write_private(
    path: Path,
    key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey,
    form: PrivateFormat = PrivateFormat.OpenSSH,
) -> None:
    """Create a key file that no other user can read at any time."""
    make_folder(path.parent, 0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"{path} exists; credentials are never overwritten: use a new folder") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, form, serialization.NoEncryption()))
