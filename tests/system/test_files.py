"""Files are written completely or not at all, and write errors are reported."""

import fcntl
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from eunoe.config.schema import make_config
from eunoe.engines.base import make_engine
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.errors import InputError, RunFailed
from eunoe.simulation.build import assemble
from eunoe.simulation.running import run
from eunoe.system.files import lock_file, replacing, write_text
from tests.small_runs import BRIEF, bits
from tests.waiting import PATIENCE


def test_text_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(RunFailed, match=r"cannot write .*a\.txt: no space left; fix this and try again"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_whatever_writes_tells_that_there_is_no_room(tmp_path: Path) -> None:
    with little_room():
        with pytest.raises(RunFailed, match="File too large"), replacing(tmp_path / "a") as partial:
            save_file({"a": torch.zeros(1000)}, partial)
        with pytest.raises(RunFailed, match="File too large"):
            write_text(tmp_path / "b", "text" * 1000)
    assert list(tmp_path.iterdir()) == []


@contextmanager
def little_room() -> Iterator[None]:
    """No file may grow beyond 2000 bytes, pytest's report neither: it must end before the test does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


TRY = """
import sys
from pathlib import Path
from eunoe.system.files import lock_file
lock_file(Path(sys.argv[1]))
"""
# What Windows lacks.
LACKING = """
import os, sys
for name in ("fcntl", "resource", "grp", "pwd"):
    sys.modules[name] = None
for name in ("fork", "forkpty", "sched_getaffinity", "killpg", "setsid", "getuid"):
    vars(os).pop(name, None)
import multiprocessing
multiprocessing.get_all_start_methods = lambda: ["spawn"]
"""
USE = """
if __name__ == "__main__":
    import json, eunoe
    config = json.loads(sys.argv[1])
    first = eunoe.run(config, out="first")
    second = eunoe.run(config, out="second", loss="wsm", engine="process")
    assert "wsm" in str(eunoe.compare([first, second]))
    assert eunoe.write_report([first, second], "report.html").stat().st_size > 0
    many = eunoe.run(config, seeds=[0, 1], out="many", engine="process")
    assert len(many) == 2
    assert eunoe.run(config, out="again").accuracy == many[0].accuracy == first.accuracy
    if "cure" in sys.argv:
        assert "1 remedy was tried" in str(eunoe.cure("first", budget=60, trials=1, jobs=2))
    print("done")
"""


def test_a_lock_excludes_other_processes_until_it_is_released(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRY, tmp_path / "lock"]
    lock = lock_file(tmp_path / "lock")
    assert b"Timeout" in subprocess.run(command, capture_output=True).stderr
    lock.release()
    assert not subprocess.run(command).returncode


def test_a_lock_of_version_0_1_excludes_others(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError):
            lock_file(tmp_path / "lock")
    lock_file(tmp_path / "lock").release()


def test_a_lock_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match=r"ymbolic link|ymlink"):
        lock_file(tmp_path / "lock")
    assert (tmp_path / "precious").read_text() == "kept"


def test_where_no_process_can_be_forked_clients_train_in_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eunoe.engines.base.can_fork", lambda: False)
    config = make_config({**BRIEF, "engine": "process"})
    simulation, _ = assemble(config)
    assert isinstance(make_engine(config, simulation, ClientStates(tmp_path / "states")), Serial)
    forked = run({**BRIEF, "checkpoint_seconds": 0}, out=tmp_path / "serial")
    here = run({**BRIEF, "checkpoint_seconds": 0, "engine": "process"}, out=tmp_path / "process")
    assert bits(here.folder) == bits(forked.folder)
    devices = make_config({**BRIEF, "engine": {"name": "process", "devices": "cuda:*"}})
    with pytest.raises(InputError, match="needs a system that can fork"):
        make_engine(devices, simulation, ClientStates(tmp_path / "states"))


@pytest.mark.parametrize("also", ["", pytest.param("cure", marks=pytest.mark.slow)])
def test_all_runs_where_fcntl_resource_and_fork_are_missing(tmp_path: Path, also: str) -> None:
    (tmp_path / "use.py").write_text(LACKING + USE)
    command = [sys.executable, "use.py", json.dumps({**BRIEF, "split": {"validation": 0.2}}), also]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.endswith("done\n"), done.stderr
    assert "Traceback" not in done.stderr
