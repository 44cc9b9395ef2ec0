"""Joining a Ray cluster, or starting a local Ray; an address where no Ray answers is refused in seconds."""

import os
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from eunoe.core.flat_model import Weights
from eunoe.engines.devices import STARTED, check_memory
from eunoe.errors import InputError, first_line
from eunoe.system.machine import cores

# Seconds within which a cluster must answer; Ray itself would ask for minutes and then end this process.
_PATIENCE = 5.0
# How a client of HTTP/2 begins, which is below Ray's own protocol, and the type of a server's first frame.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = 4
# Known to this process and its children only; by default Ray keeps one in a file that others may read.
_TOKEN = secrets.token_hex(32)
# The name is Ray's: it makes a Ray on Linux local, as it is on other systems.
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_LOCAL = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _TOKEN, _LOOPBACK: "0"}


def connect(address: str | None, workers: int | None, weights: Weights) -> None:
    """Connect this process to Ray: at an address, else at RAY_ADDRESS, else a new one on this machine."""
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check(address)
    local = {"num_cpus": workers or cores()} if address == "local" else {}
    if local:
        check_memory(local["num_cpus"], weights, STARTED)
    _configure(bool(local))
    import ray

    with _same_handler(signal.SIGTERM):
        try:
            ray.init(address, include_dashboard=False if local else None, logging_level="ERROR", **local)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(f"cannot connect to Ray at {address!r}: {first_line(error)}") from error


def _configure(local: bool) -> None:
    """Let a Ray of this process listen on loopback only and ask for a token; join others as the user set."""
    ours = os.environ.get("RAY_AUTH_TOKEN") == _TOKEN
    if local and not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        os.environ |= _LOCAL
    elif not local and ours:
        for name in _LOCAL:
            os.environ.pop(name, None)
    elif not (local and ours):
        return
    # Ray reads these when it is imported; it has no public way to read them again.
    with suppress(ImportError, AttributeError):
        from ray._private import ray_constants
        from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

        ray_constants.ENABLE_RAY_CLUSTER = os.environ.get(_LOOPBACK) != "0"
        Config.initialize("")
        AuthenticationTokenLoader.instance().reset_cache()


def _check(address: str) -> None:
    """Raise InputError if nothing answers at an address, or something other than Ray."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        # Ray finds "auto" and "local" by itself and says what is wrong with another form.
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            connection.sendall(_PREFACE)
            answer = connection.recv(9)
    except (OSError, OverflowError) as error:
        why = first_line(error)
        raise InputError(
            f"no Ray cluster answers at {address!r} ({why}): run `ray start --head` there"
        ) from None
    if len(answer) < 4 or answer[3] != _SETTINGS:
        raise InputError(f"{address!r} is not a Ray cluster; use the address that `ray start` printed")


@contextmanager
def _same_handler(number: int) -> Iterator[None]:
    """Restore a signal's handler, which Ray replaces."""
    before = signal.getsignal(number)
    yield
    with suppress(ValueError):  # Handlers can be set in the main thread only.
        signal.signal(number, before)
