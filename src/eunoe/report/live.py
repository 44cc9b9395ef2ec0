"""Serve the report on localhost during runs, updated after every round, with the state of each run."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from eunoe.analysis.tables import Table
from eunoe.config.schema import Config, make_config
from eunoe.core.rng import draw_clients
from eunoe.errors import EunoeError, InputError, first_line, join_names
from eunoe.report.html import page_html, report_html
from eunoe.store.reader import (
    find_folders,
    name_configs,
    read_partition,
    read_records,
    read_run_config,
    read_runs,
    read_status,
)
from eunoe.store.schema import RoundRecord, TimingRecord
from eunoe.system.files import each_line

WAITING = '<p class="finding">No round has finished yet.</p>'
HEADINGS = ("run", "round", "time left", "dropped in the last round", "training now")
# Rounds whose mean duration gives the time left, runs and clients that are listed, and bytes of a file's end.
RECENT, MOST_RUNS, MOST_CLIENTS, TAIL = 10, 12, 12, 1 << 20


class LiveReport:
    """The report of runs, rebuilt only when their records have grown, and the state of the runs."""

    def __init__(self, runs: Sequence[Path], names: Sequence[str] = ()) -> None:
        self.runs, self.names = list(runs), names
        self._lock = Lock()
        self._cache: tuple[str, bytes] = ("", b"")

    def version(self) -> str:
        """Return a text that changes whenever a round or a probe is recorded."""
        names = ("metrics.jsonl", "probes.jsonl")
        files = [folder / name for folder in find_folders(self.runs) for name in names]
        return "-".join(["sizes", *(str(path.stat().st_size) for path in files if path.exists())])

    def html(self) -> bytes:
        """Return the current report, or a page that waits for the first round."""
        with self._lock:
            version = self.version()
            if version != self._cache[0]:
                folders = find_folders(self.runs)
                ready = [folder for folder in folders if next(each_line(folder / "metrics.jsonl"), None)]
                if ready:
                    text = report_html(read_runs(ready, self.names), live=version)
                else:
                    text = page_html("What was forgotten", "waiting", "", WAITING, [], live=version)
                self._cache = version, text.encode()
            return self._cache[1]

    def status(self) -> bytes:
        """Return the version of the report and the state of the runs, as HTML, in JSON."""
        folders = find_folders(self.runs)
        configs = [make_config(read_run_config(folder)) for folder in folders]
        states = [str(read_status(folder).get("state", "running")) for folder in folders]
        running = [at for at, state in enumerate(states) if state == "running"]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        files = [folder / "metrics.jsonl" for folder in folders]
        updated = max((path.stat().st_mtime for path in files if path.exists()), default=None)
        last = time.strftime("%H:%M:%S", time.localtime(updated)) if updated else "none yet"
        html = f"<p><strong>{counts}</strong>, last update: {last}</p>"
        titles = name_configs(configs)
        shown = [
            [f"{titles[at]} seed {configs[at].seed}", *describe_progress(folders[at], configs[at])]
            for at in running[:MOST_RUNS]
        ]
        if shown:
            html += f'<div class="settings scroll">{Table(HEADINGS, shown).html()}</div>'
        return json.dumps({"version": self.version(), "html": html}).encode()


def describe_progress(folder: Path, config: Config) -> list[str]:
    """Return a running run's round, time left, the clients dropped last, and those that train now."""
    record = list(read_records(folder / "metrics.jsonl", RoundRecord, TAIL))
    timings = list(read_records(folder / "timings.jsonl", TimingRecord, TAIL))
    last: dict[str, Any] = record[-1] if record else {"round": 0}
    steps = ("train", "evaluate", "probe")
    seconds = [sum(each.get(step, 0.0) for step in steps) for each in timings[-RECENT:]]
    left = (config.rounds - last["round"]) * sum(seconds) / max(len(seconds), 1)
    training = training_now(folder, config, last)
    dropped = [str(each["client"]) for each in last.get("dropped", ())]
    return [
        f"{last['round']} of {config.rounds}",
        "unknown" if not seconds else f"{left / 60:.0f} min" if left > 90 else f"{left:.0f} s",
        f"{len(dropped)}: clients {join_names(dropped, MOST_CLIENTS)}" if dropped else "none",
        f"clients {join_names(training, MOST_CLIENTS)}" if training else "unknown",
    ]


def training_now(folder: Path, config: Config, last: dict[str, Any]) -> list[str]:
    """Return the clients of the round after the last record; empty where they do not follow from the seed."""
    partition = read_partition(folder)
    names, count = partition.get("client_names"), len(partition.get("label_counts") or ())
    if not count or config.stream or config.privacy or not last.get("clients", True):
        return []
    number = last["round"] + 1
    clients = draw_clients(config.seed, number, count, config.participants(count, number))
    return [str(names[client] if names else client) for client in sorted(clients.tolist())]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a tab that was closed before it had its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def serve(runs: Sequence[Path], port: int, names: Sequence[str] = ()) -> ThreadingHTTPServer:
    """Return a server of the live report, bound to localhost only."""
    live = LiveReport(runs, names)
    live.version()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A foreign host name that resolves to this machine must not read the report (DNS rebinding).
            host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
            if host not in ("127.0.0.1", "localhost"):
                self._send(403, b"only localhost is served")
            elif self.path == "/":
                self._answer(live.html, "text/html")
            elif self.path == "/status":
                self._answer(live.status, "application/json")
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
        return _Server(("127.0.0.1", port), Handler)
    except OSError as error:
        raise InputError(f"cannot serve on port {port}: {error.strerror}; use --port 0") from None
