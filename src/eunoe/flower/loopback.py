"""A complete Flower federation on this machine, for trials and tests: SuperLink, SuperNodes and the run.

Every process has its own Flower home inside the folder, so that nothing is written elsewhere and nodes do not
unpack the app into the same place at the same time. Telemetry, update checks and the installation of packages
are off.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING

from eunoe.config.schema import make_config
from eunoe.config.settings import read_config, read_stored_config
from eunoe.errors import EunoeError, InputError, RunFailed
from eunoe.flower.deploy.credentials import make_node_key

if TYPE_CHECKING:
    from eunoe.flower.server import RunOptions

Process = subprocess.Popen[bytes]


class Loopback:
    """The processes of a federation whose app `eunoe flower init` wrote to `folder`.

    `own_data` has the path of each node's own data; without it the nodes use the parts of the config's
    partition. The nodes agree to evaluate models if pyproject.toml requests it. Node k listens on
    port + 1 + k for its own app. The nodes' keys are in `trial`, apart from those of nodes elsewhere.
    """

    def __init__(
        self, folder: Path | str, nodes: int, port: int = 8443, own_data: Sequence[str] = ()
    ) -> None:
        self.folder = Path(folder).resolve()
        self.count, self.port, self.own_data = nodes, port, own_data
        if own_data and len(own_data) != nodes:
            raise InputError(f"there are {len(own_data)} data paths for {nodes} nodes; name one per node")
        self.commands = Path(sys.executable).parent
        self.link: Process | None = None
        self.nodes: dict[int, Process] = {}
        self.keys, self._logs = self.folder / "trial", self.folder / "logs"
        self._certificates = self.folder / "certificates"

    @cached_property
    def options(self) -> "RunOptions":
        """The run options in pyproject.toml."""
        from eunoe.flower.server import run_options

        return run_options(read_config(self.folder / "pyproject.toml")["tool"]["flwr"]["app"]["config"])

    def run(self) -> None:
        """Start all processes, wait for the run to end, stop all processes.

        A node that died is restarted: after a kill the SuperLink considers it alive, and refuses it,
        until it has missed its heartbeats for a minute.
        """
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
        status = self.status()
        if status != "finished":
            raise RunFailed(f"the run is {status}; see {self._logs}, then start again to resume")

    def check(self) -> None:
        """Raise InputError for what the server would refuse once all processes have started."""
        from eunoe.flower.server import build_server, check_folder

        options = self.options
        # The server runs in this folder, so paths are relative to it.
        with contextlib.chdir(self.folder):
            config = make_config(read_stored_config(Path("config.toml")))
            if options.clients != self.count:
                raise InputError(
                    f"start.py has {self.count} nodes and pyproject.toml {options.clients} clients: "
                    "they must be the same number"
                )
            check_folder(options.folder)
            if options.data == "partition":
                build_server(config, options)

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
        self.link = self._start("superlink", "flower-superlink", *flags, *_as_arguments(options))
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
        done = subprocess.run(
            [self.commands / "flwr", "supernode", "register", self.keys / f"node-{node}.pub", "here"],
            env=self._environment("cli"),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode and "already in use" not in done.stdout:
            raise RunFailed(f"node {node} could not be registered: {done.stdout.strip()}")

    def start_node(self, node: int) -> Process:
        """Start a SuperNode; it connects by itself."""
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
        self.nodes[node] = self._start(f"node-{node}", "flower-supernode", *_as_arguments(options))
        return self.nodes[node]

    def submit(self, app: str = ".", settings: str = "", output: IO[bytes] | None = None) -> Process:
        """Start an app and stream its server's output until it ends."""
        run_config = f'keys="{self.keys}" {settings}'.strip()
        return self._popen("cli", output, "flwr", "run", app, "here", "--stream", "--run-config", run_config)

    def revive(self) -> None:
        """Restart the nodes that have ended."""
        for node, process in list(self.nodes.items()):
            if process.poll() is not None:
                self.start_node(node)

    def status(self) -> str:
        """Return the state of the run, from its folder."""
        path = self.folder / self.options.folder / "status.json"
        return str(json.loads(path.read_text())["state"]) if path.exists() else "not started"

    def stop(self) -> None:
        """Terminate all processes, nodes first so that they can disconnect."""
        _terminate(*self.nodes.values())
        self.nodes.clear()
        if self.link is not None:
            _terminate(self.link)
        self.link = None

    def _start(self, name: str, *command: str) -> Process:
        """Start a process that writes to its own log."""
        with open(self._logs / f"{name}.log", "ab") as log:
            return self._popen(name, log, *command)

    def _popen(self, name: str, output: IO[bytes] | None, *command: str) -> Process:
        return subprocess.Popen(
            [str(self.commands / command[0]), *command[1:]],
            env=self._environment(name),
            cwd=self.folder,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )

    def _environment(self, name: str) -> dict[str, str]:
        return os.environ | {
            "PATH": f"{self.commands}{os.pathsep}{os.environ.get('PATH', '')}",
            "FLWR_HOME": str(self.folder / ".flwr" / name),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "OMP_NUM_THREADS": "1",
        }


def start(folder: Path, nodes: int, port: int, own_data: Sequence[str]) -> Path:
    """Run a federation on this machine and return its run folder; an error exits with one line."""
    try:
        federation = Loopback(folder, nodes, port, own_data)
        federation.run()
    except EunoeError as error:
        sys.exit(f"error: {error}")
    except ImportError as error:
        sys.exit(f"error: {error.name} is not installed; run pip install '.[flower]' in a clone of Eunoe")
    except KeyboardInterrupt:
        sys.exit("interrupted; start again to resume the run")
    return folder / federation.options.folder


def _as_arguments(options: dict[str, object]) -> list[str]:
    return [text for name, value in options.items() for text in (f"--{name}", str(value))]


# Loaded before a fork: the new process must do as little as possible.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """End the new process when its parent ends, even by kill -9."""
    pr_set_pdeathsig = 1
    assert _LIBC is not None
    _LIBC.prctl(pr_set_pdeathsig, signal.SIGTERM)


def _terminate(*processes: Process, patience: float = 10.0) -> None:
    """Terminate processes with their groups; kill those that do not end in time."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    end = time.monotonic() + patience
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, end - time.monotonic()))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
