"""Lost and changed bytes of a run and of its data: the attacks that succeeded once."""

import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from eunoe.analysis.comparison import Comparison
from eunoe.core.flat_model import load_state
from eunoe.data import builtin
from eunoe.data.builtin import SPECS
from eunoe.data.loading import load
from eunoe.data.sources.npz import read_npz, write_npz
from eunoe.errors import InputError
from eunoe.simulation.running import resume, run
from eunoe.store.reader import read_run
from tests.small_runs import NAMED, bits, everything


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    values = {**NAMED, "method": "scaffold", "probes": [{"metric": "drift", "every": 1}]}
    return run(values, out=tmp_path / "run", progress=False).folder


def test_emptied_metrics_do_not_resume_to_finished(begun: Path) -> None:
    (begun / "metrics.jsonl").write_bytes(b"")
    before = everything(begun)
    with pytest.raises(InputError, match=r"metrics\.jsonl has 0 bytes instead of \d+"):
        resume(begun, rounds=6, progress=False)
    assert everything(begun) == before


def test_empty_states_cost_a_checkpoint_and_no_traceback(
    begun: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = bits(begun)
    newest = max(begun.glob("states/*/*"), key=lambda path: int(path.stem.split("-")[1]))
    newest.write_bytes(b"")
    assert bits(resume(begun, progress=False).folder) == whole
    assert (
        f"{newest} changed since it was written (SHA-256 mismatch); using the previous checkpoint"
        in caplog.text
    )


def test_a_changed_number_is_not_shown_without_a_word(begun: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = begun / "metrics.jsonl"
    path.write_text(path.read_text().replace('"accuracy": 0.', '"accuracy": 0.9', 1))
    Comparison([read_run(begun)]).table()
    assert "metrics.jsonl changed since the run wrote it" in caplog.text


def test_a_flipped_bit_of_a_mapped_array_is_refused(tmp_path: Path) -> None:
    x, y = np.zeros((4, 3, 3), np.uint8), np.arange(4)
    write_npz(tmp_path / "a.npz", {"x_train": x, "y_train": y, "x_test": x, "y_test": y})
    place = (tmp_path / "a.npz").read_bytes().find(bytes(36), 200)
    with open(tmp_path / "a.npz", "r+b") as file:
        file.seek(place)
        file.write(b"\x01")
    with pytest.raises(InputError, match=r"x_train\.npy is not a plain array \(CRC mismatch"):
        read_npz(tmp_path / "a.npz")


def test_zeroed_official_images_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (20, 10)
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path))
    monkeypatch.setitem(SPECS, "mnist", replace(SPECS["mnist"], rows=rows))
    arrays: dict[str, Any] = {}
    for part, count in zip(("train", "test"), rows, strict=True):
        arrays |= {f"x_{part}": np.zeros((count, 28, 28), np.uint8), f"y_{part}": np.arange(count) % 10}
    write_npz(tmp_path / "mnist.npz", arrays)
    with pytest.raises(InputError, match=r"is not the official mnist: .* eunoe data fetch mnist --force"):
        builtin.mnist()


def test_a_small_file_may_not_become_a_large_array(tmp_path: Path) -> None:
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    head = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + header.ljust(117).encode() + b"\n"
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x_train.npy", head + bytes(80))
    with pytest.raises(InputError, match="needs 8000000000000 bytes, but there are 80"):
        read_npz(tmp_path / "a.npz")


def test_an_image_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("train", "test"):
        for label in ("a", "b"):
            (tmp_path / part / label).mkdir(parents=True)
            Image.new("1", (64, 64)).save(tmp_path / part / label / "0.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InputError, match="is too large: "):
        load(str(tmp_path))


def test_sparse_weights_do_not_fit(tmp_path: Path) -> None:
    module = torch.nn.Linear(3, 2)
    torch.save({"weight": torch.eye(2, 3).to_sparse(), "bias": torch.zeros(2)}, tmp_path / "a.pt")
    with pytest.raises(InputError, match="does not match the model") as caught:
        load_state(module, tmp_path / "a.pt")
    assert os.linesep not in str(caught.value)
