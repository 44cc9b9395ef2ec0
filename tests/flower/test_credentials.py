"""Credentials that verify, and that only their owner can read."""

import stat
from ipaddress import ip_address
from pathlib import Path

import pytest

pytest.importorskip("flwr")
pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from flwr.cli.supernode.register import try_load_public_key

from eunoe.errors import InputError
from eunoe.flower.deploy.credentials import fingerprint, make_node_key, make_server_certificate, read_node_key


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def verify(folder: Path, name: x509.verification.Subject, authority: Path | None = None) -> None:
    store = Store([certificate((authority or folder) / "ca.crt")])
    PolicyBuilder().store(store).build_server_verifier(name).verify(certificate(folder / "server.crt"), [])


def test_certificate_is_good_for_the_named_hosts_only(tmp_path):
    # A name may be longer than the 64 letters that a certificate's subject has room for.
    names = [f"xn--mnchen-3ya.{'a' * 60}.example.org", "localhost", "fl.example.org"]
    make_server_certificate(tmp_path, [*names, "127.0.0.1", "::1"])
    for name in names:
        verify(tmp_path, x509.DNSName(name))
    for address in ("127.0.0.1", "::1"):
        verify(tmp_path, x509.IPAddress(ip_address(address)))
    with pytest.raises(VerificationError):
        verify(tmp_path, x509.DNSName("elsewhere.example.org"))


def test_another_authority_does_not_vouch(tmp_path):
    make_server_certificate(tmp_path / "ours")
    make_server_certificate(tmp_path / "theirs")
    with pytest.raises(VerificationError):
        verify(tmp_path / "ours", x509.DNSName("localhost"), tmp_path / "theirs")


def test_the_server_certificate_cannot_sign_others(tmp_path):
    make_server_certificate(tmp_path)
    constraints = certificate(tmp_path / "server.crt").extensions.get_extension_for_class(
        x509.BasicConstraints
    )
    assert not constraints.value.ca


def test_private_files_are_for_their_owner(tmp_path):
    make_server_certificate(tmp_path)
    make_node_key(tmp_path, "node-0")
    private = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("*.key")}
    assert private == {"server.key": 0o600, "node-0.key": 0o600}
    assert not list(tmp_path.glob("ca.key"))


def test_node_keys_are_a_pair_that_flower_takes(tmp_path):
    make_node_key(tmp_path, "node-0")
    private = load_ssh_private_key((tmp_path / "node-0.key").read_bytes(), None)
    public = load_ssh_public_key((tmp_path / "node-0.pub").read_bytes())
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.public_key() == public
    assert try_load_public_key(tmp_path / "node-0.pub") == read_node_key(tmp_path / "node-0.pub")


def test_credentials_are_never_overwritten(tmp_path):
    make_node_key(tmp_path, "node-0")
    before = (tmp_path / "node-0.key").read_bytes()
    with pytest.raises(InputError, match="never overwritten"):
        make_node_key(tmp_path, "node-0")
    assert (tmp_path / "node-0.key").read_bytes() == before


def test_a_fingerprint_is_that_of_ssh_keygen(tmp_path):
    key = (
        "AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBJB/7B4gAVcvek5kTuBOT74yP5Y4oWyUr3HB15KN3411PiOWgZkq"
        "csm5Z6agSvZy+PNVn4jfJwTifDUbKUVZgrPqsR8zhq0bE7h9q2MVMAuh1cb8PcJSjLm3Z+Vl7Gd88A=="
    )
    (tmp_path / "a.pub").write_text(f"ecdsa-sha2-nistp384 {key} somebody\n")
    assert fingerprint(tmp_path / "a.pub") == "SHA256:QWPRTS2TVHE6yfYqn7rz0OjRxGuA3tboXJ/XJfjWjSc"
