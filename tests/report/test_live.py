"""The live report: updated when a round has finished, and for this machine only."""

import json
import os
import shutil
import socket
import struct
import threading
import urllib.error
import urllib.request

import pytest

from eunoe.errors import InputError
from eunoe.report.live import LiveReport, serve
from eunoe.simulation.running import run
from tests.small_runs import BRIEF

LINE = {"schema": 1, "round": 1, "test": {"accuracy": 0.5, "loss": 1.0, "per_class": [0.5, 0.5]}}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.toml").write_text('name = "first"\n')
    (tmp_path / "metrics.jsonl").touch()
    return tmp_path


def add_round(folder, number):
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps(LINE | {"round": number}) + "\n")


def test_the_report_follows_the_records(folder):
    live = LiveReport([folder])
    assert b"No round has finished" in live.html()
    add_round(folder, 1)
    before = live.version()
    assert "· 1 rounds".encode() in live.html()
    assert live.html() is live.html()
    add_round(folder, 2)
    assert live.version() != before
    assert "· 2 rounds".encode() in live.html()
    assert b"connect-src 'self'" in live.html()


def _answers(server, path):
    """Return the status and the text of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("name", ["metrics.jsonl", "timings.jsonl", "probes.jsonl", "partition.json"])
@pytest.mark.parametrize("content", [b"\xff\n", b"[1]\n", b'{"round": "x", "label_counts": 5}\n', None])
def test_damaged_records_are_one_line(folder, name, content):
    add_round(folder, 1)
    (folder / name).unlink(missing_ok=True)
    if content is None:
        os.mkfifo(folder / name)
    else:
        (folder / name).write_bytes(content)
    with serve([folder], 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        answers = [_answers(server, path) for path in ("/", "/status")]
        server.shutdown()
    said = [text for status, text in answers if status == 500]
    assert said
    assert all(name in text and "\n" not in text for text in said)


def test_a_run_that_is_gone_is_one_line(folder):
    add_round(folder, 1)
    with serve([folder], 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert _answers(server, "/status")[0] == 200
        shutil.rmtree(folder)
        for path in ("/", "/status"):
            assert _answers(server, path) == (500, f"{folder} contains no run")
        server.shutdown()


def test_only_this_machine_is_answered(folder):
    add_round(folder, 1)
    with serve([folder], 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert server.server_address[0] == "127.0.0.1"
        with urllib.request.urlopen(f"{address}/") as answer:
            assert b"What was forgotten" in answer.read()
        with urllib.request.urlopen(f"{address}/status") as answer:
            size = (folder / "metrics.jsonl").stat().st_size
            assert json.loads(answer.read())["version"] == f"sizes-{size}"
        for path, headers, status in (("/", {"Host": "evil.example"}, 403), ("/etc/passwd", {}, 404)):
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(urllib.request.Request(address + path, headers=headers))
            assert error.value.code == status
        with pytest.raises(InputError, match="use --port 0"):
            serve([folder], server.server_port)
        server.shutdown()


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(InputError, match="contains no run"):
        serve([tmp_path], 0)


@pytest.mark.parametrize("participation", [2, {"start": 1, "end": 3}])
def test_the_state_of_runs_and_the_clients_that_train_now(tmp_path, participation):
    states = []

    def state():
        return json.loads(LiveReport([tmp_path / "run"]).status())["html"]

    config = {**BRIEF, "rounds": 5, "probes": [], "participation": participation}
    done = run(config, out=tmp_path / "run", on_round=lambda record: states.append(state()))
    assert "1 finished" in state()
    for number, html in enumerate(states[:-1], start=1):
        assert f"<td>{number} of 5</td>" in html
        clients = sorted(done.records[number]["clients"])
        assert f"clients {', '.join(map(str, clients))}<" in html
        assert "1 running" in html


def test_a_closed_tab_prints_nothing(folder, capfd):
    add_round(folder, 1)
    with serve([folder], 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(3):
            tab = socket.create_connection(server.server_address)
            tab.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            # The server then writes to a connection that was reset.
            tab.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            tab.close()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/"):
            pass
        server.shutdown()
        server.server_close()
    assert capfd.readouterr().err == ""
