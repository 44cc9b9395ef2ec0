"""A deployment folder that version 0.1 wrote is still served, joined, started and signed."""

import runpy
import shutil
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from eunoe.config.settings import read_config
from eunoe.flower.deploy.credentials import make_signing_key
from eunoe.flower.deploy.signing import sign
from eunoe.flower.loopback import Loopback
from eunoe.flower.server import run_options


@pytest.fixture(name="old")
def _old(tmp_path: Path) -> Path:
    return Path(shutil.copytree(Path(__file__).parent / "v0_1", tmp_path / "app"))


def test_its_apps_can_be_imported(old: Path) -> None:
    assert isinstance(runpy.run_path(str(old / "server_app.py"))["app"], ServerApp)
    assert isinstance(runpy.run_path(str(old / "client_app.py"))["app"], ClientApp)
    assert runpy.run_path(str(old / "start.py"))["NODES"] == 2


def test_its_options_are_read_and_the_server_accepts_them(old: Path) -> None:
    project = read_config(old / "pyproject.toml")
    options = run_options(project["tool"]["flwr"]["app"]["config"])
    assert (options.clients, options.growing, options.keys) == (2, False, Path("keys"))
    Loopback(old, 2).check()


def test_it_can_be_signed(old: Path, tmp_path: Path) -> None:
    make_signing_key(tmp_path / "signing.key")
    name, _ = sign(old, tmp_path / "signing.key")
    assert name == "@eunoe/eunoe-federation==1.0.0"
    assert (old / "signed" / "app.fab").stat().st_size > 0
