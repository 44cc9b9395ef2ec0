"""A folder, FIFO or device in place of a file is refused in one line, and reads are bounded."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.config.settings import read_config
from eunoe.core.flat_model import load_state
from eunoe.data.loading import load
from eunoe.data.starter import starter_configs
from eunoe.engines.client_states import ClientStates
from eunoe.errors import Damaged, EunoeError, RunFailed
from eunoe.flower.deploy.credentials import fingerprint
from eunoe.simulation.running import resume, run
from eunoe.store.line_file import LineFile
from eunoe.store.reader import read_run
from eunoe.system import files
from eunoe.system.files import open_regular, read_json, read_lines, read_text, replacing, write_text
from eunoe.system.tensor_files import read_tensors
from tests.small_runs import FAST

READERS: dict[str, Callable[[Path], Any]] = {
    "a.txt": read_text,
    "a.json": read_json,
    "a.jsonl": read_lines,
    "a.toml": read_config,
    "a.safetensors": read_tensors,
    "a.pt": lambda path: load_state(torch.nn.Linear(1, 1), path),
    "a.pub": fingerprint,
    "a.npz": lambda path: load(str(path)),
    "a.csv": lambda path: load(str(path), label="y"),
    "a.csv.gz": lambda path: load(str(path), label="y"),
    "a.parquet": lambda path: load(str(path), label="y"),
    "b.csv": lambda path: starter_configs(str(path), label="y"),
    "config.toml": lambda path: read_run(path.parent),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_only_regular_files_are_read(name: str, make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / name)
    with pytest.raises(EunoeError, match=name):
        READERS[name](tmp_path / name)


def test_a_client_state_must_be_a_file(tmp_path: Path) -> None:
    states = ClientStates(tmp_path)
    states.save(0, 1, {"a": torch.zeros(1)})
    states.path(0, 1).unlink()
    os.mkfifo(states.path(0, 1))
    with pytest.raises(Damaged, match="a FIFO or device"):
        states.check({0: 1}, {0: b""})


def test_a_file_in_place_of_the_folder_of_states_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "states").write_text("")
    with pytest.raises(RunFailed, match=r"cannot write .*states"):
        ClientStates(tmp_path / "states").save(0, 1, {"a": torch.zeros(1)})


def test_a_text_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_TEXT", 10)
    (tmp_path / "a").write_text("0123456789")
    assert read_text(tmp_path / "a") == "0123456789"
    (tmp_path / "a").write_text("0123456789a")
    with pytest.raises(Damaged, match="more than 10 bytes"):
        read_text(tmp_path / "a")


def test_nothing_is_written_or_truncated_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "metrics.jsonl").symlink_to(victim)
    file = LineFile(tmp_path / "metrics.jsonl")
    with pytest.raises(RunFailed):
        file.truncate(None)
    with pytest.raises(RunFailed):
        file.append([{"round": 1}])
    with pytest.raises(OSError, match="symbolic"):
        open_regular(tmp_path / "metrics.jsonl", "ab")
    (tmp_path / f"status.json.{os.getpid()}.part").symlink_to(victim)
    with replacing(tmp_path / "status.json") as partial:
        partial.write_text("new")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["checkpoints", "states", "states/0", "track"])
def test_a_run_does_not_write_through_a_linked_folder(name: str, tmp_path: Path) -> None:
    done = run({**FAST, "rounds": 1, "method": "scaffold"}, out=tmp_path / "run", progress=False)
    folder, victim = done.folder / name, tmp_path / "victim"
    folder.rename(victim) if folder.exists() else victim.mkdir()
    folder.symlink_to(victim)
    before = sorted(victim.rglob("*"))
    with pytest.raises(EunoeError, match=f"{name} is a link, through which nothing is written"):
        resume(done.folder, rounds=2, progress=False)
    assert sorted(victim.rglob("*")) == before


def _make_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, _make_device])
def test_only_regular_files_are_replaced(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "taken"
    make(path)
    before = path.stat().st_mode
    with pytest.raises(Damaged, match=r"cannot write .*taken: it is a"):
        write_text(path, "new")
    assert path.stat().st_mode == before
    assert list(tmp_path.iterdir()) == [path]
