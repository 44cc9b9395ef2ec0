"""Serves the report on localhost during runs, updated after every round."""

from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from eunoe.errors import EunoeError, InputError
from eunoe.report.html import report_html
from eunoe.store.groups import find_folders, read_runs


class LiveReport:
    """The report of runs, rebuilt only when their records have grown."""

    def __init__(self, runs: Sequence[Path]) -> None:
        self.runs = list(runs)
        self._lock = Lock()
        self._made: tuple[str, bytes] = ("", b"")

    def version(self) -> str:
        """Changes whenever a round or a probe is recorded."""
        files = [
            path
            for folder in find_folders(self.runs)
            for name in ("metrics.jsonl", "probes.jsonl")
            if (path := folder / name).exists()
        ]
        return "-".join(str(path.stat().st_size) for path in files)

    def html(self) -> bytes:
        """The current report; before any round has finished, a placeholder that reloads itself."""
        with self._lock:
            version = self.version()
            if version != self._made[0]:
                ready = [path for path in find_folders(self.runs) if _has_rounds(path)]
                text = report_html(read_runs(ready), live=version) if ready else WAITING
                self._made = version, text.encode()
            return self._made[1] or WAITING.encode()


WAITING = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>Waiting</title><p>No round has finished yet. The report looks again every two seconds.</p></html>"""


def _has_rounds(folder: Path) -> bool:
    path = folder / "metrics.jsonl"
    return path.exists() and b"\n" in path.read_bytes()


def serve(runs: Sequence[Path], port: int) -> ThreadingHTTPServer:
    """A server of the live report, bound to localhost only."""
    live = LiveReport(runs)
    live.version()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A foreign host name that resolves to this machine must not read the report (DNS rebinding).
            host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
            if host not in ("127.0.0.1", "localhost"):
                self._send(403, b"only for this machine", "text/plain")
            elif self.path == "/":
                try:
                    self._send(200, live.html(), "text/html")
                except EunoeError as error:
                    self._send(500, str(error).encode(), "text/plain")
            elif self.path == "/version":
                self._send(200, live.version().encode(), "text/plain")
            else:
                self._send(404, b"there is only /", "text/plain")

        def _send(self, status: int, body: bytes, kind: str) -> None:
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
