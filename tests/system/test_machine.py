"""Keeping freed memory: the options set in glibc, and C libraries without them."""

import ctypes
import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
import torch

from eunoe.data.loading import load
from eunoe.errors import InputError, RunFailed
from eunoe.system import machine
from eunoe.system.machine import keep_freed_memory, within_memory


class Library:
    """A C library that records its calls; below 2^26 it refuses no threshold."""

    def __init__(self, accepts_all: bool) -> None:
        self.accepts_all, self.calls = accepts_all, list[tuple[int, int]]()

    def mallopt(self, name: int, value: int) -> int:
        self.calls.append((name, value))
        return int(self.accepts_all or value < 1 << 26)


@pytest.mark.parametrize(
    ("accepts_all", "calls"),
    [
        (True, [(-3, 1 << 30), (-1, 1 << 30)]),
        (False, [(-3, 1 << 30), (-3, 1 << 25), (-1, 1 << 30)]),
    ],
)
def test_the_highest_threshold_that_is_accepted_is_set(
    accepts_all: bool, calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(accepts_all)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    keep_freed_memory()
    assert library.calls == calls


def test_a_c_library_without_the_choice_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: asked.append(name))
    keep_freed_memory()
    assert asked == [None]


def test_a_refused_allocation_says_how_much_was_wanted() -> None:
    refused = r"more memory than available"
    with (
        pytest.raises(InputError, match=rf"the model needs {refused} \(.*2\.00 EiB"),
        within_memory("the model"),
    ):
        np.empty(1 << 60, np.int16)
    wanted = r"\(\d+ bytes requested\)"
    with pytest.raises(RunFailed, match=f"{refused} {wanted}"), within_memory("training", RunFailed):
        torch.empty(1 << 60, dtype=torch.int8)
    with pytest.raises(InputError, match=rf"this needs {refused}$"), within_memory("this"):
        raise MemoryError
    with pytest.raises(RuntimeError, match="something else"), within_memory("this"):
        raise RuntimeError("something else")


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.xz", "a.npz"])
def test_files_made_to_fill_memory_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_LARGE", 1 << 20)
    path, rows = tmp_path / name, np.zeros((1 << 21, 1), np.int8)
    if name == "a.npz":
        np.savez_compressed(path, x_train=rows, y_train=rows[:, 0], x_test=rows, y_test=rows[:, 0])
    else:
        path.write_bytes((gzip if name.endswith("gz") else lzma).compress(b"y\n" + b"0\n" * (1 << 21)))
    with pytest.raises(InputError, match=r"a\..* expands to 100 times its size or more"):
        load(str(path), **({} if name == "a.npz" else {"label": "y"}))
