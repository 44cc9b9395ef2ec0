"""Addresses at which no Ray is."""

import socket
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
    with pytest.raises(InputError, match=f"no Ray answers at '{address}'"):
        connection._check(address)
    with pytest.raises(InputError, match="no Ray answers at 'ray://"):
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
