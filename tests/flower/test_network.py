"""A federation for real: server and nodes as processes of their own on 127.0.0.1, over TLS, with node keys.

A round takes about ten seconds on an idle machine, since Flower starts a process per message and nodes poll
every three seconds; one federation serves all tests.
"""

import contextlib
import os
import shutil
import signal
import socket
from pathlib import Path

import pytest
import torch

pytest.importorskip("flwr")

import eunoe
from eunoe.analysis.remedies import REMEDIES
from eunoe.config.settings import to_toml
from eunoe.flower.deploy.credentials import make_node_key
from eunoe.flower.deploy.init import init
from eunoe.flower.loopback import Loopback
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from eunoe.store.reader import read_run
from eunoe.store.run_records import main_value
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.slow
NODES, ROUNDS = 3, 3
ROOT = Path(__file__).parents[2]
METHODS = {
    "fedavg": {"method": "fedavg", "loss": "ce"},
    "scaffold": {"method": "scaffold", "loss": "ce"},
    "fedcurv": {"method": "fedcurv", "loss": "ce"},
    "flashback-wsm": {"method": "flashback", "loss": "wsm", "public": {"share": 0.1}},
}


def values(**more):
    return {
        "seed": 3,
        "rounds": ROUNDS,
        "participation": 1.0,
        "partition": {"name": "dirichlet", "clients": NODES, "alpha": 0.3},
        "model": {"name": "mlp", "hidden": [16]},
        "training": {"epochs": 1, "batch_size": 32},
        "engine": {"name": "serial"},
        **more,
    }


def free_port() -> int:
    """The first of enough free ports in a row."""
    for port in range(21000, 29000, 10):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise RuntimeError("no free port")


@pytest.fixture(scope="module", name="here")
def _here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flower") / "app"
    port = free_port()
    init(folder, NODES, port=port)
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), before])
    try:
        with Loopback(folder, NODES, port) as here:
            here.start_link()
            for node in range(NODES):
                here.register(node)
                here.start_node(node)
            yield here
    finally:
        os.environ["PYTHONPATH"] = before


def app(here: Loopback, name: str, settings: dict) -> Path:
    """Another app of the same federation, with its own configuration."""
    folder = here.folder.parent / name
    folder.mkdir()
    for file in ("pyproject.toml", "server_app.py", "client_app.py"):
        shutil.copy(here.folder / file, folder)
    (folder / "config.toml").write_text(to_toml(settings))
    return folder


class Submitted:
    """A run that was submitted to the federation."""

    def __init__(self, here: Loopback, folder: Path, timeout: float = 300.0) -> None:
        self.here, self.folder = here, folder / "run"
        self.output = folder / "output.log"
        settings = f'folder="{self.folder}" timeout={timeout} quorum=2'
        with open(self.output, "ab") as output:
            self.process = here.submit(str(folder), settings, output)

    def until(self, condition, revive: bool = False) -> None:
        def holds() -> bool:
            if revive:
                self.here.revive()
            return condition()

        until(holds, lambda: self.output.read_text()[-3000:])

    def rounds(self) -> int:
        path = self.folder / "metrics.jsonl"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def wait(self, revive: bool = False) -> Run:
        self.until(lambda: self.process.poll() is not None, revive)
        result = Run(self.folder)
        assert result.finished, self.output.read_text()[-3000:]
        return result


def in_training(here: Loopback, node: int) -> int:
    """How many orders to train a node has taken."""
    return (here.folder / "logs" / f"node-{node}.log").read_text().count("Receiving: train")


def assert_same(one: Run, other: Run) -> None:
    for lane in ("parameters", "float_buffers", "int_buffers"):
        assert torch.equal(getattr(one.weights(), lane), getattr(other.weights(), lane))
    lines = [(run.folder / "metrics.jsonl").read_text() for run in (one, other)]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("name", METHODS)
def test_bits_are_those_of_the_serial_engine(here, tmp_path, name):
    settings = values(**METHODS[name])
    serial = run(settings, out=tmp_path / "serial")
    assert_same(Submitted(here, app(here, name, settings)).wait(), serial)


def test_an_ordinary_project_with_at_most_eight_more_lines(here, tmp_path):
    folder, measured = tmp_path / "project", tmp_path / "measured"
    folder.mkdir()
    code = (ROOT / "examples" / "flower_project.py").read_text()
    assert 0 < sum(line.endswith("# Eunoe") for line in code.splitlines()) <= 8
    for before, after in {
        '"partition-id"': '"client"',
        "ROUNDS, EPOCHS = 10, 20, 5": "ROUNDS, EPOCHS = 10, 3, 5",
        "fraction_train=0.3": "fraction_train=1.0, min_available_nodes=3",
        "new_model(), test)": f"new_model(), test, folder={str(measured)!r})",
    }.items():
        assert code.count(before) == 1
        code = code.replace(before, after)
    (folder / "project.py").write_text(code)
    project = (here.folder / "pyproject.toml").read_text().replace(', "config.toml"', "")
    for app_name in ("server_app", "client_app"):
        assert f'"{app_name}:app"' in project
        project = project.replace(f'"{app_name}:app"', f'"project:{app_name}"')
    (folder / "pyproject.toml").write_text(project)
    with open(folder / "output.log", "wb") as output:
        process = here.submit(str(folder), output=output)
    until(lambda: process.poll() is not None, lambda: (folder / "output.log").read_text()[-3000:])
    assert "These are numbers of the averaged model" in (folder / "output.log").read_text()
    records = read_run(measured)
    assert records.rounds == [1, 2, 3]
    assert all(len(record["clients"]) == NODES and "sent" in record for record in records.metrics)
    assert main_value(records.metrics[-1]["test"]) > 0.2
    # Three clients have four of the ten digits; the model knows what their classes are.
    assert [remedy.code for remedy in eunoe.diagnose(measured).remedies] in ([], [REMEDIES["wsm"].code])


def test_an_unregistered_node_is_refused(here):
    make_node_key(here.keys, f"node-{NODES}")
    stranger = here.start_node(NODES)
    del here.nodes[NODES]
    try:
        assert stranger.wait(PATIENCE) != 0
    finally:
        # What it has started may outlive it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(stranger.pid, signal.SIGKILL)
    log = (here.folder / "logs" / f"node-{NODES}.log").read_text()
    assert "Failed to activate SuperNode" in log
    assert "SuperNode ID" not in log


@pytest.fixture(scope="module", name="calm")
def _calm(tmp_path_factory):
    calm = values(method="tests.flower.methods:Remembers", loss="wsm")
    return run(calm, out=tmp_path_factory.mktemp("calm") / "run")


def held(gate: Path, *clients: int) -> dict:
    """A run whose clients wait in round 2 until a file exists."""
    method = {"name": "tests.flower.methods:Held", "gate": str(gate), "held": list(clients), "round": 2}
    return values(method=method, loss="wsm")


def test_a_node_killed_in_mid_round_comes_back_and_the_run_goes_on(here, calm, tmp_path):
    before = in_training(here, 1)
    running = Submitted(here, app(here, "killed-node", held(tmp_path / "gate", 1)))
    running.until(lambda: in_training(here, 1) > before + 1)  # in its second round
    here.nodes[1].kill()
    here.nodes[1].wait()
    (tmp_path / "gate").touch()
    assert_same(running.wait(revive=True), calm)


def test_a_killed_server_goes_on_where_it_was(here, calm, tmp_path):
    folder = app(here, "killed-server", held(tmp_path / "gate", *range(NODES)))
    running, before = Submitted(here, folder), in_training(here, 0)
    running.until(lambda: running.rounds() == 1 and in_training(here, 0) == before + 2)
    here.link.kill()
    here.link.wait()
    running.until(lambda: running.process.poll() is not None)
    assert running.rounds() == 1
    (tmp_path / "gate").touch()
    here.start_link()
    assert_same(Submitted(here, folder).wait(revive=True), calm)
