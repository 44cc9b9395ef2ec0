"""An nginx of our own with the config that `eunoe flower init` writes, and an outsider's requests."""

import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE

from tests.waiting import PATIENCE, until

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
NEEDS_NGINX = pytest.mark.skipif(
    NGINX is None, reason="nginx is not installed; install it with: apt-get install nginx-light"
)


def free_ports(count: int) -> int:
    """The first of some free ports in a row; another range than that of other tests."""
    for port in range(31000 + os.getpid() % 500 * 10, 39000, 10):
        probes = [socket.socket() for _ in range(count)]
        try:
            for offset, probe in enumerate(probes):
                probe.bind(("127.0.0.1", port + offset))
        except OSError:
            continue
        else:
            return port
        finally:
            for probe in probes:
                probe.close()
    raise RuntimeError("no free port")


@contextmanager
def proxy(folder: Path, port: int) -> Iterator[subprocess.Popen]:
    """The proxy of a federation's folder, until the end of the block."""
    # As root nginx takes another user for its work, who cannot read the folder.
    user = "user root; " if os.getuid() == 0 else ""
    command = [NGINX, "-p", str(folder), "-c", "nginx.conf", "-g", f"{user}daemon off;"]
    with open(folder / "proxy" / "errors.log", "ab") as errors:
        process = subprocess.Popen(command, stderr=errors)
    try:
        until(lambda: process.poll() is not None or is_listening(port))
        assert process.poll() is None
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Outsider:
    """Somebody who can reach the port and has ca.crt, which every node has."""

    def __init__(self, ca: Path, port: int) -> None:
        self.context, self.port = ssl.create_default_context(cafile=str(ca)), port

    def ask(self, path: str, body: bytes = b"", method: str = "POST", **headers: str) -> tuple[int, bytes]:
        """The status and the answer to a request whose path is sent as it is."""
        connection = HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in {"Content-Type": PROTOBUF_MEDIA_TYPE, **headers}.items():
                connection.putheader(name.replace("_", "-"), value)
            if "Transfer_Encoding" not in headers:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            # A proxy that refuses the rest of a body closes the connection while it is sent.
            with suppress(OSError):
                connection.send(body)
            try:
                answer = connection.getresponse()
                return answer.status, answer.read()
            except OSError:
                return 0, b""
        finally:
            connection.close()
