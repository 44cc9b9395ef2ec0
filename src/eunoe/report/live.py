"""Serve the report on localhost during runs, updated after every round."""

from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from eunoe.errors import EunoeError, InputError, first_line
from eunoe.report.html import report_html
from eunoe.store.reader import find_folders, read_runs
from eunoe.system.files import each_line

WAITING = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>Waiting</title><p>No round has finished yet. This page reloads every two seconds.</p></html>"""


class LiveReport:
    """The report of runs, rebuilt only when their records have grown."""

    def __init__(self, runs: Sequence[Path]) -> None:
        self.runs = list(runs)
        self._lock = Lock()
        self._cache: tuple[str, bytes] = ("", WAITING.encode())

    def version(self) -> str:
        """Return a text that changes whenever a round or a probe is recorded."""
        names = ("metrics.jsonl", "probes.jsonl")
        files = [folder / name for folder in find_folders(self.runs) for name in names]
        return "-".join(str(path.stat().st_size) for path in files if path.exists())

    def html(self) -> bytes:
        """Return the current report, or a page that reloads itself before any round has finished."""
        with self._lock:
            version = self.version()
            if version != self._cache[0]:
                folders = find_folders(self.runs)
                ready = [folder for folder in folders if any(each_line(folder / "metrics.jsonl"))]
                text = report_html(read_runs(ready), live=version) if ready else WAITING
                self._cache = version, text.encode()
            return self._cache[1]


def serve(runs: Sequence[Path], port: int) -> ThreadingHTTPServer:
    """Return a server of the live report, bound to localhost only."""
    live = LiveReport(runs)
    live.version()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A foreign host name that resolves to this machine must not read the report (DNS rebinding).
            host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
            if host not in ("127.0.0.1", "localhost"):
                self._send(403, b"only localhost is served")
            elif self.path == "/":
                self._answer(live.html, "text/html")
            elif self.path == "/version":
                self._answer(lambda: live.version().encode())
            else:
                self._send(404, b"there is only /")

        def _answer(self, make: Callable[[], bytes], kind: str = "text/plain") -> None:
            try:
                self._send(200, make(), kind)
            except (EunoeError, OSError) as error:
                self._send(500, first_line(error).encode())

        def _send(self, status: int, body: bytes, kind: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Do not log requests to the terminal."""

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise InputError(f"cannot serve on port {port}: {error.strerror}; use --port 0") from None
