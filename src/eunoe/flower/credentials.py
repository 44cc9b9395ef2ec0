"""Credentials of a federation: a certificate authority, the server's TLS certificate, a key pair per node
and the operator's key, which signs apps.

A node authenticates with an elliptic-curve key in OpenSSH format (what Flower reads); all parties verify the
server's certificate against the authority's. Every private file is readable by its owner only.
"""

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
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
HOST_NAME = re.compile(rf"(\*\.)?({_PART}\.)*(?!\d+$){_PART}", re.IGNORECASE | re.ASCII)


def write_private(path: Path, content: bytes) -> None:
    """Write a new file that is never readable by other users, not even for a moment."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(
            f"{path} exists; credentials are never overwritten: remove it or name a new folder"
        ) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def general_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """Names and addresses of a server as certificate entries; anything else is refused."""
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            if len(host) > 253 or not HOST_NAME.fullmatch(host):
                raise InputError(
                    f"{host!r} is not a host name or address; use one such as fl.example.org or "
                    "192.0.2.7, without https:// and port, and in ASCII letters (xn--...) if it has others"
                ) from None
            names.append(x509.DNSName(host))
    return names


def make_server_certificate(folder: Path, hosts: Sequence[str] = LOOPBACK, days: int = 365) -> None:
    """Write ca.crt, server.crt and server.key; `hosts` are the names and addresses that nodes use.

    The authority's own key is discarded: nothing else is ever signed with it, so it cannot be stolen.
    """
    names = general_names(hosts)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ca_key, server_key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Eunoe federation authority")])
    server_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Eunoe federation server")])
    authority = (
        _certificate(ca_name, ca_name, ca_key.public_key(), ca_key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(ca_key, hashes.SHA384())
    )
    server = (
        _certificate(server_name, ca_name, server_key.public_key(), ca_key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA384())
    )
    pem = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(folder / "server.key", pem)
    (folder / "ca.crt").write_bytes(authority.public_bytes(Encoding.PEM))
    (folder / "server.crt").write_bytes(server.public_bytes(Encoding.PEM))


def make_node_key(folder: Path, name: str) -> None:
    """Write NAME.key (stays on the node) and NAME.pub (is registered with the server)."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP384R1())
    write_private(
        folder / f"{name}.key", key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    )
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public + b"\n")


def read_node_key(path: Path) -> bytes:
    """The public key in NAME.pub, in the form in which Flower keeps it."""
    try:
        key = load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} is not a node's public key ({error}); put the node's key there") from None
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def fingerprint(path: Path) -> str:
    """A public key's fingerprint, as ssh-keygen -l shows it."""
    read_node_key(path)
    digest = hashlib.sha256(base64.b64decode(path.read_bytes().split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def make_signing_key(path: Path) -> ed25519.Ed25519PrivateKey:
    """Write the operator's key, whose signature an app needs to run on a node."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ed25519.Ed25519PrivateKey.generate()
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    return key


def read_signing_key(path: Path) -> ed25519.Ed25519PrivateKey:
    """The operator's key."""
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise InputError(
            f"{path} is not a signing key ({error}); name the one of eunoe flower init"
        ) from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise InputError(f"{path} is not an Ed25519 key; name the one that eunoe flower init has made")
    return key


def key_name(key: ed25519.Ed25519PublicKey) -> str:
    """The name under which nodes know a signing key."""
    return f"fpk_{hashlib.sha256(key.public_bytes_raw()).hexdigest()[:32]}"


def trusted_entities(key: ed25519.Ed25519PublicKey) -> str:
    """The file by which a SuperNode trusts apps that were signed with this key."""
    return f"{key_name(key)}: {key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()}\n"


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
    days: int,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # the nodes' clocks may run behind
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
