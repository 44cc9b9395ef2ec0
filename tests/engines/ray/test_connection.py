"""Addresses at which no Ray is."""

import ast
import os
import socket
import subprocess
import sys
import threading

import pytest

from eunoe.engines.ray import connection
from eunoe.errors import InputError


def listening(answer: bytes) -> tuple[socket.socket, str]:
    """A server of something else, and its address."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server.accept()[0] as found:
            found.recv(100)
            found.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return server, f"127.0.0.1:{server.getsockname()[1]}"


def test_an_address_where_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(InputError, match=f"no Ray cluster answers at '{address}'"):
        connection._check(address)
    with pytest.raises(InputError, match="no Ray cluster answers at 'ray://"):
        connection._check(f"ray://{address}")


def test_an_address_where_something_else_answers() -> None:
    for answer in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"):
        server, address = listening(answer)
        with server, pytest.raises(InputError, match="is not a Ray cluster"):
            connection._check(address)


def test_an_address_where_a_server_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(InputError, match="timed out"):
        connection._check(f"127.0.0.1:{server.getsockname()[1]}")


def test_a_server_of_http2_may_be_ray() -> None:
    server, address = listening(bytes([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]))
    with server:
        connection._check(address)


@pytest.mark.parametrize("address", ["local", "auto", "no-port", "host:port"])
def test_other_forms_are_left_to_ray(address: str) -> None:
    connection._check(address)


def test_a_local_ray_has_a_token_and_the_loopback_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_TOKEN_PATH", *connection._LOCAL):
        monkeypatch.delenv(name, raising=False)
    connection._configure(True)
    assert {name: os.environ[name] for name in connection._LOCAL} == connection._LOCAL
    # Another cluster has its own settings.
    connection._configure(False)
    assert not connection._LOCAL.keys() & os.environ.keys()
    monkeypatch.setenv("RAY_AUTH_TOKEN", "mine")
    connection._configure(True)
    assert os.environ["RAY_AUTH_TOKEN"] == "mine"
    assert "RAY_AUTH_MODE" not in os.environ


@pytest.mark.slow
def test_no_port_of_a_local_ray_is_open_to_others() -> None:
    code = """
import psutil, ray, torch
from eunoe.core.flat_model import Weights
from eunoe.engines.ray.connection import connect
connect(None, 1, Weights(torch.zeros(1), torch.zeros(0), torch.zeros(0)))
processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
print({port.laddr.ip for each in processes for port in each.net_connections() if port.status == "LISTEN"})
ray.shutdown()
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    addresses = ast.literal_eval(found.stdout.splitlines()[-1])
    assert addresses
    assert addresses <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
