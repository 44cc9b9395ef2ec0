"""Files are written completely or not at all, and write errors are reported."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from eunoe.errors import RunFailed
from eunoe.system.files import replacing, write_text


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
