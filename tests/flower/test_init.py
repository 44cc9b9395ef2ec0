"""The app that `eunoe flower init` writes: complete, valid for Flower, and with its secrets kept."""

import io
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("flwr")

from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate

from eunoe.cli.flower import app
from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.config.settings import read_config
from eunoe.errors import InputError
from eunoe.flower.deploy.credentials import fingerprint
from eunoe.flower.deploy.init import adapt_config, init, render
from eunoe.flower.loopback import Loopback, start
from eunoe.flower.server import run_options
from eunoe.simulation.build import UserObjects, build_simulation
from tests.faults import alive
from tests.waiting import until

LEARNS = render("learns.md", {}).partition("\n\n")[2]


@pytest.fixture(name="folder")
def _folder(tmp_path):
    result = CliRunner().invoke(app, ["init", str(tmp_path / "app"), "--nodes", "2", "--port", "9000"])
    assert result.exit_code == 0, result.output
    assert "start.py" in result.output
    return tmp_path / "app"


def test_all_files_are_there(folder):
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    for_a_node = ("README.md", "ca.crt", "trusted-entities.yaml")
    assert names == {
        *(".gitignore", "README.md", "pyproject.toml", "config.toml", "environment.sh", "nginx.conf"),
        *("server_app.py", "client_app.py", "start.py", "operator/signing.key"),
        *("certificates/ca.crt", "certificates/server.crt", "certificates/server.key"),
        *(f"nodes/node-{node}/{name}" for node in range(2) for name in for_a_node),
    }
    for path in folder.rglob("*.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for name in (".", "keys", "certificates", "operator", "proxy"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o700


def test_a_nodes_key_is_made_on_the_node_and_only_there(folder, monkeypatch):
    bundle = folder / "nodes" / "node-1"
    secrets = [path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix == ".key"]
    assert len(secrets) == 2  # The server's and the operator's.
    assert not any(secret in path.read_bytes() for path in bundle.iterdir() for secret in secrets)
    monkeypatch.chdir(bundle)
    result = CliRunner().invoke(app, ["key", "1"])
    assert result.exit_code == 0, result.output
    public = (bundle / "node-1.pub").read_text()
    assert stat.S_IMODE((bundle / "node-1.key").stat().st_mode) == 0o600
    assert fingerprint(bundle / "node-1.pub") in result.output
    assert "PRIVATE" not in public


def test_every_node_has_a_port_of_its_own_for_its_app(folder):
    texts = [(folder / "nodes" / f"node-{node}" / "README.md").read_text() for node in range(2)]
    assert [f"--port {9094 + node} " in text for node, text in enumerate(texts)] == [True, True]
    assert all("Two SuperNodes on one machine need two ports" in " ".join(text.split()) for text in texts)


def test_configurations_are_valid(folder):
    config = make_config(read_config(folder / "config.toml"))
    assert config.partition.options["clients"] == 2
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    options = run_options(project["tool"]["flwr"]["app"]["config"])
    assert (options.clients, options.quorum, options.data) == (2, 1, "partition")
    assert options.keys == Path("keys")
    load_and_validate(folder / "pyproject.toml")


def test_the_readme_says_in_both_places_that_commands_need_no_login(folder):
    places = (folder / "README.md").read_text().split("## On several machines")
    assert ["need no login" in " ".join(place.split()) for place in places] == [True, True]


def test_only_the_proxy_listens_for_others(folder):
    """The SuperLink's port and that of the signed app are on 127.0.0.1."""
    readme, proxy = (folder / "README.md").read_text(), (folder / "nginx.conf").read_text()
    assert "flower-superlink --host 127.0.0.1 --port 9001 --enable-supernode-auth" in readme
    assert [line.strip() for line in proxy.splitlines() if line.strip().startswith("listen")] == [
        "listen 9000 ssl;",
        "listen 127.0.0.1:9002;",
    ]
    assert "server 127.0.0.1:9001;" in proxy


def test_readme_and_docs_list_what_the_server_learns(folder):
    docs = Path(__file__).parents[2] / "docs" / "flower.md"
    for text in ((folder / "README.md").read_text(), docs.read_text()):
        assert LEARNS in text
        assert "## What the keys prove" in text


def test_whatever_methods_send_beside_models_is_listed():
    sent = {}
    for name in registry.names("method"):
        simulation = build_simulation(make_config({"method": name, "public": {"share": 0.1}}), UserObjects())
        sent[name] = set(simulation.method.uploads(simulation.context))
    assert {name: uploads for name, uploads in sent.items() if uploads} == {
        "fedcm": {"work"},
        "fedcurv": {"fisher", "weighted"},
        "fednova": {"work"},
        "flashback": {"counts"},
        "labelwise": {"owned"},
        "scaffold": {"control_change"},
    }
    assert all(name in LEARNS for name, uploads in sent.items() if uploads)


def test_only_the_app_travels(folder):
    """Flower would send any JSON or TOML it finds; keys, results and data must stay."""
    (folder / "run").mkdir()
    (folder / "run" / "status.json").write_text("{}")
    (folder / "run" / "config.toml").write_text("")
    (folder / "keys" / "secret.toml").write_text("")
    bundle = zipfile.ZipFile(io.BytesIO(build_fab_from_disk(folder)))
    assert {name for name in bundle.namelist() if not name.startswith(".info")} == {
        *("pyproject.toml", "config.toml", "server_app.py", "client_app.py", "start.py"),
    }


def test_the_apps_can_be_loaded(folder):
    for name, kind in (("server_app", "ServerApp"), ("client_app", "ClientApp")):
        scope = {"__file__": str(folder / f"{name}.py")}
        exec((folder / f"{name}.py").read_text(), scope)
        assert type(scope["app"]).__name__ == kind


def test_the_start_script_follows_pyproject(folder, monkeypatch):
    """Where the run is, and whether the nodes evaluate models on their own data."""
    project = folder / "pyproject.toml"
    commands = []
    monkeypatch.setattr(Loopback, "_start", lambda self, name, command, options: commands.append(options))
    Loopback(folder, 2).start_node(0)
    project.write_text(
        project.read_text()
        .replace('folder = "run"', 'folder = "elsewhere"')
        .replace("validate-on-clients = false", "validate-on-clients = true")
    )
    here = Loopback(folder, 2, own_data=["a.npz", "b.npz"])
    here.start_node(1)
    assert ["validate=true" in options["node-config"] for options in commands] == [False, True]
    assert here.status() == "not started"
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "status.json").write_text(json.dumps({"state": "finished"}))
    assert here.status() == "finished"


def test_what_goes_wrong_with_the_start_script_is_one_line(folder, capfd):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        script = (folder / "start.py").read_text().replace("PORT = 9000", f"PORT = {port}")
        (folder / "start.py").write_text(script)
        code = subprocess.run([sys.executable, folder / "start.py"], check=False).returncode
    assert code == 1
    assert capfd.readouterr().err == f"error: port {port} is in use; choose another one\n"


STARTING = """
import sys
from pathlib import Path
from eunoe.flower.loopback import Loopback
here = Loopback(Path(sys.argv[1]), 1)
here.commands = Path("/bin")
with here:
    print(here._start("sleeper", ["sleep", "600"], {}).pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a process that its parent is gone")
def test_nothing_is_left_running_when_the_start_script_is_killed(folder):
    started = subprocess.Popen(
        [sys.executable, "-c", STARTING, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    sleeper = int(started.stdout.readline())
    assert alive(sleeper)
    os.kill(started.pid, signal.SIGKILL)
    started.communicate()
    until(lambda: not alive(sleeper))


def test_a_config_of_ones_own(tmp_path):
    own = tmp_path / "own.toml"
    text = "# of mine\nrounds = 7\n\n[partition]\nname = 'iid'\nclients = 3\n"
    own.write_text(text)
    init(tmp_path / "app", config=own)
    assert (tmp_path / "app" / "config.toml").read_text() == text
    own.write_text("round = 7\n")
    with pytest.raises(InputError, match="rounds"):
        init(tmp_path / "other", config=own)
    assert not (tmp_path / "other").exists()


def test_under_secure_aggregation_nodes_sign_and_know_each_other(tmp_path, folder):
    config = tmp_path / "own.toml"
    config.write_text(
        "rounds = 2\nparticipation = 3\n[partition]\nname = 'iid'\nclients = 3\n[secure_aggregation]\n"
    )
    init(tmp_path / "secure", 3, config=config)
    node = (tmp_path / "secure" / "nodes" / "node-1" / "README.md").read_text()
    assert 'key=\\"$PWD/node-1.key\\" peers=\\"$PWD/peers\\""' in node
    assert "`node-K.pub` of every node" in node
    server = (tmp_path / "secure" / "README.md").read_text()
    assert "as `peers`" in server
    assert "server sees sums" in server
    plain = (folder / "README.md").read_text() + (folder / "nodes" / "node-1" / "README.md").read_text()
    assert "peers" not in plain
    assert "Without secure aggregation" in plain


def test_a_config_is_fitted_to_the_nodes_and_to_any_place(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pictures").mkdir()
    values = {
        "participation": 8,
        "data": "./own.npz",
        "partition": {"name": "dirichlet", "clients": 15, "alpha": 0.1},
        "public": {"data": {"name": "./pictures/", "size": 8}},
        "model": {"name": "mlp", "start_from": "start.safetensors"},
    }
    caplog.set_level("INFO")
    fit = adapt_config(values, 3)
    assert fit == {
        "participation": 3,
        "data": str(tmp_path / "own.npz"),
        "partition": {"name": "dirichlet", "clients": 3, "alpha": 0.1},
        "public": {"data": {"name": str(tmp_path / "pictures"), "size": 8}},
        "model": {"name": "mlp", "start_from": str(tmp_path / "start.safetensors")},
    }
    assert len(caplog.records) == 2
    assert make_config(adapt_config({"rounds": 7}, 3)).partition.options["clients"] == 3


def test_what_the_server_would_refuse_is_reported_before_anything_starts(folder):
    Loopback(folder, 2).check()
    (folder / "run").mkdir()
    (folder / "run" / "notes.txt").write_text("precious")
    with pytest.raises(InputError, match="run is not empty and has no run"):
        Loopback(folder, 2).check()
    (folder / "run" / "notes.txt").unlink()
    with pytest.raises(InputError, match=r"3 nodes, but pyproject.toml has 2 clients"):
        Loopback(folder, 3).check()
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("clients = 2", "clients = 5"))
    with pytest.raises(InputError, match=r"has 5 clients, but pyproject.toml has 2"):
        Loopback(folder, 2).check()
    with pytest.raises(SystemExit, match=r"^error: the partition"):
        start(folder, 2, 9000, [])
    assert not (folder / "logs").exists()


def test_starting_without_flower_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr", None)
    for name in [name for name in sys.modules if name.startswith(("flwr.", "eunoe.flower."))]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit, match=r"^error: flwr\S* is not installed; run pip install '.*\[fl"):
        start(folder, 2, 9000, [])


@pytest.mark.parametrize(
    "host",
    [
        *("", " ", "münchen.de", "https://fl.example.org", "fl.example.org:8443", "a..b", "-a.org"),
        *("192.168.1.256", "fl.example.org.", f"{'a' * 64}.org", ".".join(["a" * 60] * 5)),
    ],
)
def test_a_host_that_cannot_be_leaves_no_folder(tmp_path, host):
    with pytest.raises(InputError, match="is not a host name or address"):
        init(tmp_path / "app", hosts=[host])
    assert not (tmp_path / "app").exists()


@pytest.mark.parametrize("existed", [False, True])
def test_a_folder_that_could_not_be_written_is_as_it_was(tmp_path, monkeypatch, existed):
    def fails(path):
        path.parent.mkdir(parents=True)
        path.write_text("half")
        raise OSError("the disk is full")

    monkeypatch.setattr("eunoe.flower.deploy.credentials.make_signing_key", fails)
    if existed:
        (tmp_path / "app").mkdir()
    with pytest.raises(OSError, match="full"):
        init(tmp_path / "app")
    assert list(tmp_path.rglob("*")) == ([tmp_path / "app"] if existed else [])


def test_what_cannot_be_is_refused(tmp_path, folder):
    with pytest.raises(InputError, match="not empty"):
        init(folder)
    with pytest.raises(InputError, match="at least 1 node"):
        init(tmp_path / "none", nodes=0)
    with pytest.raises(InputError, match="port"):
        init(tmp_path / "high", port=65535)
    with pytest.raises(InputError, match="data paths"):
        Loopback(folder, 2, own_data=["one.npz"])


def test_folders_and_keys_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "federation"
    folder.mkdir(mode=0o755)
    init(folder, nodes=1)
    private = [folder, *(folder / name for name in ("certificates", "operator", "keys", "proxy", "signed"))]
    assert [f"{path.stat().st_mode & 0o777:o}" for path in private] == ["700"] * 6
    keys = folder.rglob("*.key")
    assert {f"{path.stat().st_mode & 0o777:o}" for path in keys} == {"600"}
    assert "umask 077" in (folder / "environment.sh").read_text().splitlines()


def test_two_at_once_do_not_remove_each_others_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The other one has checked that the folder is empty before this one wrote.
    init(tmp_path / "federation", nodes=1)
    written = sorted((tmp_path / "federation").rglob("*"))
    monkeypatch.setattr(Path, "iterdir", lambda self: iter(()))
    with pytest.raises(InputError, match="credentials are never overwritten"):
        init(tmp_path / "federation", nodes=1)
    monkeypatch.undo()
    assert sorted((tmp_path / "federation").rglob("*")) == written
