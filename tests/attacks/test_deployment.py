"""A federation as its README says, proxy, SuperLink and nodes over TLS in folders of their own, under attack.

The commands are those of the README, run by a shell. What is measured is memory.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from eunoe.config.settings import to_toml
from eunoe.data.loading import load
from eunoe.data.sources.npz import write_npz
from eunoe.flower.deploy.credentials import make_node_key
from eunoe.flower.deploy.init import init
from eunoe.simulation.run import Run
from tests.attacks.proxy import NEEDS_NGINX, NGINX, Outsider, free_ports, is_listening
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.slow, NEEDS_NGINX]
NODES, ROUNDS, MB = 2, 2, 1_000_000
ROOT = Path(__file__).parents[2]
CONFIG = {
    "rounds": ROUNDS,
    "participation": 1.0,
    "model": {"name": "mlp", "hidden": [16]},
    "training": {"epochs": 1, "batch_size": 64},
    "loss": "wsm",
}


def blocks(text: str) -> list[str]:
    """The indented commands of a README."""
    found = re.findall(r"(?:^(?: {7}| {4}).*\n)+", text, re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


class Deployment:
    """The parties' folders, and the processes that their READMEs start."""

    def __init__(self, place: Path) -> None:
        self.place, self.server, self.port = place, place / "server", free_ports(3)
        self.config = place / "config.toml"
        self.config.write_text(to_toml(CONFIG))
        init(self.server, NODES, port=self.port, config=self.config)
        self.readme = blocks((self.server / "README.md").read_text())
        self.machines = [place / f"machine-{node}" for node in range(NODES)]
        for node, machine in enumerate(self.machines):
            shutil.move(self.server / "nodes" / f"node-{node}", machine)
        self.operator = place / "operator"
        self.processes: dict[str, subprocess.Popen] = {}
        tools = place / "tools"
        tools.mkdir()
        # As root nginx takes another user for its work, who cannot read these folders.
        user = '-g "user root;" ' if os.getuid() == 0 else ""
        (tools / "nginx").write_text(f'#!/bin/sh\nexec {NGINX} {user}"$@"\n')
        (tools / "nginx").chmod(0o755)
        path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
        python = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self.environment = os.environ | {"PATH": path, "PYTHONPATH": python, "OMP_NUM_THREADS": "1"}

    def shell(self, commands: str, folder: Path, check: bool = True) -> str:
        # Into a file: what a command leaves running would keep a pipe open.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["bash", "-c", commands],
                cwd=folder,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(PATIENCE)
            finally:
                _end(process)
            output.seek(0)
            text = output.read().decode(errors="replace")
        assert not check or code == 0, text[-3000:]
        return text

    def start(self, name: str, commands: str, folder: Path) -> None:
        with open(folder / "log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                ["bash", "-c", commands],
                cwd=folder,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> None:
        with contextlib.suppress(AssertionError):
            self.shell('nginx -p "$PWD" -c nginx.conf -s stop', self.server)
        for process in reversed(self.processes.values()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            _end(process)

    def command(self, start: str) -> str:
        (found,) = [block for block in self.readme if start in block]
        return found

    def flwr(self, arguments: str, check: bool = True) -> str:
        return self.shell(f". ./environment.sh; flwr {arguments}", self.server, check)

    def link(self) -> int:
        """The process of the SuperLink."""
        wanted = f"--port {self.port + 1}"
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = entry.read_bytes().replace(b"\0", b" ").decode()
                if "flower-superlink" in line and wanted in line and "bash" not in line:
                    return int(entry.parent.name)
        raise AssertionError("there is no SuperLink")


def _end(process: subprocess.Popen) -> None:
    """End a process and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module", name="deployed")
def _deployed(tmp_path_factory):
    place = tmp_path_factory.mktemp("deployment")
    deployed, digits = Deployment(place), load("digits")
    try:
        for node, machine in enumerate(deployed.machines):
            key, run = blocks((machine / "README.md").read_text())
            deployed.shell(key, machine)
            shutil.copy(machine / f"node-{node}.pub", deployed.server / "keys")
            part = slice(node, 600, NODES)
            arrays = {"x": digits.train.x[part].numpy(), "y": digits.train.y[part].numpy()}
            write_npz(machine / "data.npz", arrays)
        project = deployed.server / "pyproject.toml"
        project.write_text(project.read_text().replace('data = "partition"', 'data = "own"'))
        deployed.shell(deployed.command("eunoe flower sign"), deployed.server)
        shutil.move(deployed.server / "operator", deployed.operator)
        deployed.start("server", deployed.command("flower-superlink"), deployed.server)
        until(lambda: is_listening(deployed.port + 1))
        deployed.shell(deployed.command("flwr run").partition("flwr run")[0], deployed.server)
        for node, machine in enumerate(deployed.machines):
            _, run = blocks((machine / "README.md").read_text())
            commands = run.replace("/path/to/data.npz", str(machine / "data.npz"))
            deployed.start(f"node {node}", commands, machine)
        yield deployed
    finally:
        deployed.stop()


@pytest.fixture(name="outsider")
def _outsider(deployed):
    return Outsider(deployed.machines[0] / "ca.crt", deployed.port)


def test_the_readme_leads_to_a_finished_run(deployed):
    run = (
        deployed.command("flwr run").partition("\n")[0] + "\n" + deployed.command("flwr run").splitlines()[-1]
    )
    output = deployed.shell(run, deployed.server)
    result = Run(deployed.server / "run")
    assert result.finished, output[-3000:]
    assert [len(record["clients"]) for record in result.records] == [NODES] * ROUNDS
    private = [path for path in deployed.server.rglob("*") if path.suffix == ".key"]
    assert [path.name for path in private] == ["server.key"]
    for machine in deployed.machines:
        assert [path.name for path in machine.glob("*.key")] == [f"node-{machine.name[-1]}.key"]


def test_an_outsider_can_neither_register_a_key_nor_start_a_run(deployed, tmp_path):
    """With ca.crt and Flower's own commands, at the only open port."""
    make_node_key(tmp_path, "node-9")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(
        f'[superlink.theirs]\naddress = "127.0.0.1:{deployed.port}"\n'
        f'root-certificates = "{deployed.machines[0] / "ca.crt"}"\n'
    )
    init(tmp_path / "app", 1)
    known, runs = deployed.flwr("supernode list server"), deployed.flwr("list server")
    home = f"export FLWR_HOME={tmp_path / 'home'} FLWR_DISABLE_UPDATE_CHECK=1 FLWR_TELEMETRY_ENABLED=0; "
    for command in ("supernode register node-9.pub theirs", "run app theirs", "list theirs"):
        output = deployed.shell(f"{home} flwr {command}", tmp_path, check=False)
        assert re.search(r"404|not found|error", output, re.IGNORECASE), output
        assert "uccessfully" not in output
    # The node itself cannot register either, and is not let in.
    node = (
        f"{home} flower-supernode --superlink 127.0.0.1:{deployed.port} --port {deployed.port + 5} "
        f"--root-certificates {deployed.machines[0] / 'ca.crt'}"
    )
    for key in ("", " --auth-supernode-private-key node-9.key"):
        output = deployed.shell(f"timeout 120 {node}{key}", tmp_path, check=False)
        assert "Failed to initialize the connection" in output, output[-2000:]
    ids = re.compile(r"\d{15,}")
    assert ids.findall(deployed.flwr("supernode list server")) == ids.findall(known)
    assert ids.findall(deployed.flwr("list server")) == ids.findall(runs)


CURIOUS = """
from pathlib import Path
Path({path!r}).write_text("was here")
"""


def test_nodes_run_nothing_that_is_not_signed(deployed, tmp_path):
    """Somebody who can log in to the server starts an app of theirs."""
    (tmp_path / "data.toml").write_text(to_toml(CONFIG))
    init(tmp_path / "app", NODES, config=tmp_path / "data.toml")
    client, trace = tmp_path / "app" / "client_app.py", tmp_path / "trace"
    client.write_text(client.read_text() + CURIOUS.format(path=str(trace)))
    settings = f'folder="{tmp_path / "theirs"}" join-timeout=40.0 keys="{deployed.server / "keys"}"'
    output = deployed.flwr(f"run {tmp_path / 'app'} server --stream --run-config '{settings}'", check=False)
    assert "could not join: The FAB could not be verified" in output, output[-3000:]
    assert not trace.exists()


def peak(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024


def growth(process: int, attack) -> int:
    """By how many bytes the memory of a process has peaked above what it had."""
    Path(f"/proc/{process}/clear_refs").write_text("5")
    before = peak(process)
    attack()
    return peak(process) - before


def flood(outsider: Outsider) -> list[int]:
    """Three bodies of 64 MB at once, of somebody without a key."""
    with ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(outsider.ask, "/v1/fleet/push-object", bytes(64 * MB)) for _ in range(3)]
        return [one.result()[0] for one in asked]


def test_big_bodies_of_outsiders_do_not_reach_the_superlink(deployed, outsider):
    found = []
    cut = growth(deployed.link(), lambda: found.extend(flood(outsider)))
    assert set(found) <= {413, 0}
    behind = Outsider(deployed.machines[0] / "ca.crt", deployed.port + 1)
    uncut = growth(deployed.link(), lambda: flood(behind))
    print(f"the SuperLink grew by {cut / MB:.0f} MB behind the proxy and by {uncut / MB:.0f} MB without")
    assert cut < 10 * MB
    assert uncut > 64 * MB


SWELLS = """
import numpy as np
from flwr.app import Array, ArrayRecord
from eunoe.flower import client

honest = client.train
def swollen(config, node, content):
    reply = honest(config, node, content)
    if node.client == 1:
        reply["weights"] = ArrayRecord({"parameters": Array(np.arange(50_000_000, dtype=np.float32))})
    return reply
client.train = swollen
"""
MEASURES = """
import atexit, resource
from eunoe.flower import roster
before, ask = [], roster.Roster.ask
def asked(*arguments):
    before.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return ask(*arguments)
roster.Roster.ask = asked
def grown():
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Path({path!r}).write_text(str((after - before[0]) * 1024))
atexit.register(grown)
"""


def test_a_registered_nodes_large_array_is_refused_before_it_is_received(deployed, tmp_path):
    """200 MB for a model of some KB; the app that sends them is signed, so that nodes run it."""
    for name, added in (
        ("client_app", SWELLS),
        ("server_app", MEASURES.format(path=str(tmp_path / "grown"))),
    ):
        path = deployed.server / f"{name}.py"
        path.write_text(path.read_text() + added)
    key = deployed.operator / "signing.key"
    deployed.shell(f"eunoe flower sign . --key {key}", deployed.server)
    settings = f'folder="{tmp_path / "run"}" quorum=1 join-timeout=120.0'
    command = deployed.command("flwr run").splitlines()[-1]
    output = deployed.shell(f". ./environment.sh; {command} --run-config '{settings}'", deployed.server)
    result = Run(tmp_path / "run")
    assert result.finished, output[-3000:]
    for record in result.records:
        assert [one["client"] for one in record["dropped"]] == [1]
        assert "its reply exceeds the limit of" in record["dropped"][0]["reason"]
    grown = int((tmp_path / "grown").read_text())
    print(f"the server grew by {grown / MB:.0f} MB")
    assert grown < 100 * MB
