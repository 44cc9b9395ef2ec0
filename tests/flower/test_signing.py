"""An app that the operator has signed, as Flower's own SuperNode verifies it."""

import json
import os

import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr")

import yaml
from flwr.supercore.fab import Fab
from flwr.superlink.servicer.control.control_handlers import _format_verification
from flwr.supernode.cli.flower_supernode import _validate_public_keys_ed25519
from flwr.supernode.start_client_internal import _verify_fab

from eunoe.cli.flower import app
from eunoe.errors import InputError
from eunoe.flower.deploy.credentials import make_node_key, make_signing_key
from eunoe.flower.deploy.init import init
from eunoe.flower.deploy.signing import sign


@pytest.fixture(name="folder")
def _folder(tmp_path):
    init(tmp_path / "app", 1, port=9000)
    return tmp_path / "app"


def delivered(folder) -> Fab:
    """The app as the SuperLink makes it of the proxy's answer and sends it to nodes."""
    answer = json.loads((folder / "signed" / "app.json").read_text())
    assert answer["fab_url"] == "http://127.0.0.1:9002/app.fab"
    return Fab(
        "", (folder / "signed" / "app.fab").read_bytes(), _format_verification(answer["verifications"])
    )


def trusted(folder) -> dict[str, str]:
    entities = yaml.safe_load((folder / "nodes" / "node-0" / "trusted-entities.yaml").read_text())
    _validate_public_keys_ed25519(entities)
    return entities


def test_a_node_takes_what_the_operator_has_signed_and_nothing_else(folder, tmp_path):
    result = CliRunner().invoke(app, ["sign", str(folder), "--key", str(folder / "operator" / "signing.key")])
    assert result.exit_code == 0, result.output
    assert "@eunoe/eunoe-federation==1.0.0" in result.output
    fab = delivered(folder)
    assert _verify_fab(fab, trusted(folder))
    changed = Fab("", fab.content[:-1] + bytes([fab.content[-1] ^ 1]), fab.verifications)
    assert not _verify_fab(changed, trusted(folder))
    make_signing_key(tmp_path / "other.key")
    sign(folder, tmp_path / "other.key")
    assert not _verify_fab(delivered(folder), trusted(folder))


def test_a_change_needs_a_new_signature(folder):
    key = folder / "operator" / "signing.key"
    before, signature = sign(folder, key), delivered(folder).verifications
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("rounds = 5", "rounds = 6"))
    after = sign(folder, key)
    assert before[0] == after[0]
    assert before[1] != after[1]
    assert not _verify_fab(Fab("", delivered(folder).content, signature), trusted(folder))


def test_what_cannot_be_signed_is_said_in_a_line(folder, tmp_path):
    key = folder / "operator" / "signing.key"
    with pytest.raises(InputError, match="is not a signing key"):
        sign(folder, tmp_path / "none.key")
    make_node_key(tmp_path, "node-0")
    with pytest.raises(InputError, match="is not a signing key"):
        sign(folder, tmp_path / "node-0.key")
    project = folder / "pyproject.toml"
    text = project.read_text()
    project.write_text(text.replace("[tool.eunoe]", "[tool.other]"))
    with pytest.raises(InputError, match="has no 'eunoe'; sign a folder of eunoe flower init"):
        sign(folder, key)
    project.write_text(text.replace('serverapp = "server_app:app"', ""))
    with pytest.raises(InputError, match=r"is not a Flower app: .*serverapp"):
        sign(folder, key)
    project.write_text(text)
    (folder / "config.toml").write_text("round = 3\n")
    with pytest.raises(InputError, match="rounds"):
        sign(folder, key)
    assert list((folder / "signed").iterdir()) == []


def test_a_fifo_in_the_app_is_refused(folder):
    os.mkfifo(folder / "notes.md")
    with pytest.raises(InputError, match=r"notes\.md is a FIFO or device, not a file"):
        sign(folder, folder / "operator" / "signing.key")
