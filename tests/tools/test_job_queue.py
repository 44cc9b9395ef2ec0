"""The queue of long jobs: order, lanes, a second try, going on after kill -9, pausing."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools import job_queue as queue

from tests.waiting import PATIENCE, until

# Real jobs with real pauses and kills, which need a machine that is not busy.
pytestmark = pytest.mark.slow

TOOL = Path(queue.__file__)


class Fixture:
    """A queue in a folder of its own; jobs write to files in `place`."""

    def __init__(self, root: Path) -> None:
        self.folder, self.place = root / "queue", root / "place"
        self.folder.mkdir()
        self.place.mkdir()
        self.running: list[subprocess.Popen[str]] = []

    def jobs(self, **commands: str | list[str]) -> None:
        blocks = [
            f"[[job]]\nname = {json.dumps(name)}\ncommand = {json.dumps(command)}\n"
            f"folder = {json.dumps(str(self.place))}\ncore_hours = 1.0\n"
            for name, command in commands.items()
        ]
        (self.folder / "jobs.toml").write_text("\n".join(blocks))

    def start(self) -> "subprocess.Popen[str]":
        self.running.append(subprocess.Popen([sys.executable, TOOL, "run", self.folder], text=True))
        return self.running[-1]

    def call(self, action: str, code: int = 0) -> str:
        command = [sys.executable, str(TOOL), action, str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def state(self, name: str) -> dict[str, Any]:
        path = self.folder / "state.json"
        found: dict[str, Any] = json.loads(path.read_text())[name] if path.exists() else {"state": "waiting"}
        return found

    def lines(self, name: str) -> list[str]:
        path = self.place / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Fixture]:
    made = Fixture(tmp_path)
    yield made
    for process in made.running:
        process.terminate()
        process.wait(PATIENCE)


def ticking(name: str) -> str:
    """A job that says that it began, and then writes on without end."""
    return f"echo began >> {name}.starts; while true; do echo tick >> {name}; sleep 0.05; done"


def leader(pid: int) -> str:
    """The state letter of a process, empty if it is gone."""
    return queue.stat(pid)[0]


def test_jobs_run_in_order_in_two_lanes_and_are_done_once(made: Fixture) -> None:
    until_both = "while [ $(cat both | wc -l) -lt 2 ]; do sleep 0.05; done"
    says = "echo $OMP_NUM_THREADS $(nice) $(nproc) >> order; taskset -pc $$ >> cores"
    together = f"echo x >> both; {until_both}; {says}"
    made.jobs(first=together, second=together, third=["sh", "-c", "echo third >> order"])
    assert made.start().wait(PATIENCE) == 0
    assert made.lines("order") == ["1 19 1", "1 19 1", "third"]
    cores = {line.rpartition(" ")[2] for line in made.lines("cores")}
    assert len(cores) == min(2, len(os.sched_getaffinity(0)))
    assert {made.state(name)["state"] for name in ("first", "second", "third")} == {"done"}
    assert made.start().wait(PATIENCE) == 0
    assert len(made.lines("order")) == 3


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel does not group sessions")
def test_a_job_yields_to_other_sessions(made: Fixture) -> None:
    made.jobs(one=ticking("one"))
    made.start()
    until(lambda: bool(made.lines("one")))
    group = Path(f"/proc/{made.state('one')['pid']}/autogroup")
    until(lambda: group.read_text().endswith(" nice 19\n"))


def test_a_job_that_fails_is_tried_once_more(made: Fixture) -> None:
    made.jobs(
        never="echo x >> never; echo no luck; exit 3",
        second="echo x >> second; test $(cat second | wc -l) -eq 2",
        absent=["no-such-command"],
        after="echo x >> after",
    )
    assert made.start().wait(PATIENCE) == 1
    assert len(made.lines("never")) == 2
    assert len(made.lines("second")) == 2
    found = {name: made.state(name)["state"] for name in ("never", "second", "absent", "after")}
    assert found == {"never": "failed", "second": "done", "absent": "failed", "after": "done"}
    assert (made.folder / "logs/never.log").read_text() == "no luck\n" * 2
    assert "no-such-command" in (made.folder / "logs/absent.log").read_text()


def test_what_ran_when_the_queue_was_killed_is_started_again_and_alone(made: Fixture) -> None:
    made.jobs(done="echo x >> done", long=ticking("long"))
    killed = made.start()
    until(lambda: bool(made.lines("long")) and made.state("done")["state"] == "done")
    until(lambda: queue.core_hours(made.state("long")["pid"]) > 0)
    killed.kill()
    killed.wait(PATIENCE)
    left = made.state("long")["pid"]
    assert leader(left) not in ("", "Z")
    made.start()
    until(lambda: len(made.lines("long.starts")) == 2)
    assert leader(left) in ("", "Z")
    assert made.state("long")["pid"] != left
    assert made.state("long")["failures"] == 0
    assert made.state("long")["core_hours"] > 0
    assert made.lines("done") == ["x"]


def test_a_process_that_only_has_the_pid_of_a_job_is_left_alone(made: Fixture) -> None:
    made.jobs(job="echo x >> job")
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        status = {"state": "running", "failures": 0, "core_hours": 0.5, "pid": other.pid, "born": "1"}
        (made.folder / "state.json").write_text(json.dumps({"job": status}))
        assert made.start().wait(PATIENCE) == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait(PATIENCE)
    assert made.lines("job") == ["x"]
    assert made.state("job")["core_hours"] >= 0.5


def test_a_pause_stops_what_runs_and_starts_nothing_until_it_ends(made: Fixture) -> None:
    made.jobs(one=ticking("one"), two="while [ ! -e go ]; do sleep 0.05; done", three="echo x >> three")
    made.start()
    until(lambda: bool(made.lines("one")) and made.state("two")["state"] == "running")
    assert "running (paused)" in made.call("pause")
    pids = [made.state(name)["pid"] for name in ("one", "two")]
    # A shell is in state D while the process that it starts is stopped.
    until(lambda: all(leader(pid) in ("T", "D") for pid in pids))
    (made.place / "go").touch()
    ticks = len(made.lines("one"))
    # Long enough for the queue to have looked around.
    time.sleep(2 * queue.LOOK_SECONDS)
    # A shell that is stopped leaves at most the line that it was writing.
    assert len(made.lines("one")) <= ticks + 1
    assert made.state("three")["state"] == "waiting"
    assert "(paused)" not in made.call("resume")
    until(lambda: made.state("three")["state"] == "done" and len(made.lines("one")) > ticks + 1)


def test_a_queue_that_is_paused_starts_nothing(made: Fixture) -> None:
    made.jobs(one="echo x >> one")
    assert "not running (paused)" in made.call("pause")
    process = made.start()
    until(lambda: "is running (paused)" in made.call("status"))
    time.sleep(2 * queue.LOOK_SECONDS)
    assert not made.lines("one")
    made.call("resume")
    assert process.wait(PATIENCE) == 0
    assert made.lines("one") == ["x"]


def test_a_queue_that_is_asked_to_end_takes_its_jobs_with_it_even_if_paused(made: Fixture) -> None:
    made.jobs(one=ticking("one"), two="echo x >> two")
    process = made.start()
    until(lambda: bool(made.lines("one")) and made.state("two")["state"] == "done")
    made.call("pause")
    pid = made.state("one")["pid"]
    process.terminate()
    process.wait(PATIENCE)
    assert leader(pid) in ("", "Z")
    assert made.state("one")["state"] == "waiting"
    assert made.state("one")["failures"] == 0


def test_only_one_queue_runs_in_a_folder(made: Fixture) -> None:
    made.jobs(one=ticking("one"))
    made.start()
    until(lambda: bool(made.lines("one")))
    assert "running already" in made.call("run", code=1)
    assert made.lines("one.starts") == ["began"]


def test_status_tells_what_is_done_what_runs_what_is_next_and_the_hours_left(made: Fixture) -> None:
    spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo x >> done"
    made.jobs(done=spin, one=ticking("one"), two=ticking("two"), three="true")
    made.start()
    until(lambda: all(made.state(name)["state"] == "running" for name in ("one", "two")))
    printed = made.call("status")
    found = re.findall(r"^(done|running|waiting) +(\w+)", printed, re.MULTILINE)
    assert found == [("done", "done"), ("running", "one"), ("running", "two"), ("waiting", "three")]
    assert "left: 3.0 core-hours, 1.5 hours" in printed
    assert made.state("done")["core_hours"] > 0


def test_core_hours_are_those_of_the_whole_process_group() -> None:
    spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    process = subprocess.Popen(["sh", "-c", f"({spin}); sleep 600"], start_new_session=True)
    try:
        until(lambda: queue.core_hours(process.pid) > 0.1 / 3600)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
    # The subshell and its children are orphans now, which the system takes away when it gets to them.
    until(lambda: queue.core_hours(process.pid) == 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must list jobs"),
        ("[[job]]\nname = 'a'\n", "must list jobs"),
        ("[[job]]\nname = 'a'\ncommand = 'true'\nfolder = '/'\ncore_hours = 1\n" * 2, "must be unique"),
    ],
)
def test_a_list_that_is_wrong_is_told_in_one_line(made: Fixture, text: str, told: str) -> None:
    (made.folder / "jobs.toml").write_text(text)
    printed = made.call("status", code=1)
    assert told in printed
    assert len(printed.splitlines()) == 1
