"""A complete Flower federation on this machine, for trials and tests: SuperLink, SuperNodes and the run.

Every process has its own Flower home inside the folder: nodes must not unpack the app into the same place.
Telemetry, update checks and the installation of packages are off.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from eunoe.config.schema import make_config
from eunoe.config.settings import read_config, read_stored_config
from eunoe.errors import EunoeError, InputError, RunFailed, install_command
from eunoe.flower.deploy.credentials import make_node_key
from eunoe.store.reader import read_status

if TYPE_CHECKING:
    from eunoe.flower.server import RunOptions

Process = subprocess.Popen[bytes]
# Seconds that processes have to end.
PATIENCE = 10.0
# Ends a process with its parent, even by kill -9. Loaded before a fork: the new process must do little.
_PR_SET_PDEATHSIG = 1
_die_with_parent = (
    partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, signal.SIGTERM) if sys.platform == "linux" else None
)


class Loopback:
    """The processes of a federation whose app `eunoe flower init` wrote to a folder.

    Nodes use parts of the config's partition, or the data at the paths in `own_data`.
    """

    def __init__(
        self, folder: Path | str, nodes: int, port: int = 8443, own_data: Sequence[str] = ()
    ) -> None:
        self.folder = Path(folder).resolve()
        self.count, self.port, self.own_data = nodes, port, own_data
        if own_data and len(own_data) != nodes:
            raise InputError(f"got {len(own_data)} data paths for {nodes} nodes: pass one per node")
        self.commands = Path(sys.executable).parent
        self.link: Process | None = None
        self.nodes: dict[int, Process] = {}
        # Apart from the keys of nodes elsewhere.
        self.keys, self._logs = self.folder / "trial", self.folder / "logs"
        self._certificates = self.folder / "certificates"

    @cached_property
    def options(self) -> "RunOptions":
        """The run options in pyproject.toml."""
        from eunoe.flower.server import run_options

        return run_options(read_config(self.folder / "pyproject.toml")["tool"]["flwr"]["app"]["config"])

    def run(self) -> None:
        """Start all processes, wait for the run to end, stop all processes."""
        self.check()
        with self:
            self.start_link()
            for node in range(self.count):
                self.register(node)
                self.start_node(node)
            run = self.submit()
            try:
                while run.poll() is None:
                    self.revive()
                    time.sleep(1)
            finally:
                _terminate(run)
        if (status := self.status()) != "finished":
            raise RunFailed(f"the run is {status}; see {self._logs}, then start again to resume")

    def check(self) -> None:
        """Check config and options as the server does, before any process starts."""
        from eunoe.flower.server import check_app

        if (count := self.options.clients) != self.count:
            raise InputError(f"start.py has {self.count} nodes, but pyproject.toml has {count} clients")
        # The server runs in this folder, so paths are relative to it.
        with contextlib.chdir(self.folder):
            check_app(make_config(read_stored_config(Path("config.toml"))), self.options)

    def __enter__(self) -> "Loopback":
        self._logs.mkdir(exist_ok=True)
        home = self.folder / ".flwr" / "cli"
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "here"\n\n[superlink.here]\n'
            f'address = "127.0.0.1:{self.port}"\nroot-certificates = "{self._certificates / "ca.crt"}"\n'
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_link(self) -> Process:
        """Start the SuperLink and wait until it listens."""
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                raise InputError(f"port {self.port} is in use; choose another one")
        options = {
            "ssl-ca-certfile": self._certificates / "ca.crt",
            "ssl-certfile": self._certificates / "server.crt",
            "ssl-keyfile": self._certificates / "server.key",
            "database": self.folder / "superlink.db",
            "host": "127.0.0.1",
            "port": self.port,
        }
        flags = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
        self.link = self._start("superlink", ["flower-superlink", *flags], options)
        end = time.monotonic() + 60
        while time.monotonic() < end and self.link.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return self.link
            time.sleep(0.2)
        raise RunFailed(f"the SuperLink did not start; see {self._logs / 'superlink.log'}")

    def register(self, node: int) -> None:
        """Register a node's public key with the SuperLink, which stores it in its database."""
        if not (self.keys / f"node-{node}.key").exists():
            make_node_key(self.keys, f"node-{node}")
        path = str(self.keys / f"node-{node}.pub")
        done = self._popen("cli", subprocess.PIPE, "flwr", "supernode", "register", path, "here")
        said = done.communicate(timeout=120)[0].decode()
        if done.returncode and "already in use" not in said:
            raise RunFailed(f"node {node} could not be registered: {said.strip()}")

    def start_node(self, node: int) -> Process:
        """Start a SuperNode, which connects to the SuperLink."""
        key = self.keys / f"node-{node}.key"
        settings = f'client={node} state="{self.folder / "state"}" key="{key}" peers="{self.keys}"'
        if self.own_data:
            settings += f' data="{Path(self.own_data[node]).resolve()}"'
        if self.options.validate_on_clients:
            settings += " validate=true"
        options = {
            "superlink": f"127.0.0.1:{self.port}",
            "root-certificates": self._certificates / "ca.crt",
            "auth-supernode-private-key": key,
            "node-config": settings,
            "host": "127.0.0.1",
            "port": self.port + 1 + node,
        }
        self.nodes[node] = self._start(f"node-{node}", ["flower-supernode"], options)
        return self.nodes[node]

    def submit(self, app: str = ".", settings: str = "", output: IO[bytes] | None = None) -> Process:
        """Start an app and stream its server's output until it ends."""
        run_config = f'keys="{self.keys}" {settings}'.strip()
        return self._popen("cli", output, "flwr", "run", app, "here", "--stream", "--run-config", run_config)

    def revive(self) -> None:
        """Restart nodes that have exited. The SuperLink refuses a killed node for a minute."""
        for node, process in list(self.nodes.items()):
            if process.poll() is not None:
                self.start_node(node)

    def status(self) -> str:
        """Return the state of the run, from its folder."""
        return str(read_status(self.folder / self.options.folder).get("state", "not started"))

    def stop(self) -> None:
        """Terminate all processes, nodes first so that they can disconnect."""
        _terminate(*self.nodes.values())
        _terminate(*filter(None, [self.link]))
        self.nodes, self.link = {}, None

    def _start(self, name: str, command: Sequence[str], options: dict[str, object]) -> Process:
        """Start a process that writes to its own log."""
        arguments = (text for key, value in options.items() for text in (f"--{key}", str(value)))
        with open(self._logs / f"{name}.log", "ab") as log:
            return self._popen(name, log, *command, *arguments)

    def _popen(self, name: str, output: IO[bytes] | int | None, *command: str) -> Process:
        environment = os.environ | {
            "PATH": f"{self.commands}{os.pathsep}{os.environ.get('PATH', '')}",
            "FLWR_HOME": str(self.folder / ".flwr" / name),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "OMP_NUM_THREADS": "1",
        }
        return subprocess.Popen(
            [str(self.commands / command[0]), *command[1:]],
            env=environment,
            cwd=self.folder,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            start_new_session=True,
            # The server's database and the logs are for this user only.
            umask=0o077,
            preexec_fn=_die_with_parent,
        )


def start(folder: Path, nodes: int, port: int, own_data: Sequence[str]) -> Path:
    """Run a federation on this machine and return its run folder; an error exits with one line."""
    try:
        federation = Loopback(folder, nodes, port, own_data)
        federation.run()
    except EunoeError as error:
        sys.exit(f"error: {error}")
    except ImportError as error:
        sys.exit(f"error: {error.name} is not installed; run {install_command('flower')}")
    except KeyboardInterrupt:
        sys.exit("interrupted; start again to resume the run")
    return folder / federation.options.folder


def _terminate(*processes: Process) -> None:
    """Terminate processes with their groups; kill those that do not end in time."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    end = time.monotonic() + PATIENCE
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, end - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
