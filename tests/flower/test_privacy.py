"""Differential privacy in a federation."""

import json
import math
from pathlib import Path

import pytest
import torch

pytest.importorskip("flwr")

from eunoe.simulation.running import run
from tests.flower import test_federation
from tests.flower.test_federation import CLIENTS, Federation, values

UNIFORM = {"method": {"name": "fedavg", "weighting": "uniform"}}


@pytest.fixture(autouse=True)
def _setting(server_process, some_digits):
    test_federation.DATA["name"] = str(some_digits)


def test_without_clip_and_noise_the_bits_are_those_of_the_serial_engine(tmp_path: Path) -> None:
    more = UNIFORM | {"privacy": {"clip": math.inf, "noise": 0.0, "delta": 0.01}}
    serial = run(values(**more), out=tmp_path / "serial")
    federation = Federation(tmp_path / "flower", **more).serve()
    assert torch.equal(federation.weights().parameters, serial.weights().parameters)


def test_noise_is_fresh_and_every_merge_is_noted(tmp_path: Path) -> None:
    more = UNIFORM | {"privacy": {"clip": 0.5, "noise": 5.0, "delta": 0.01}}
    serial = run(values(**more), out=tmp_path / "serial")
    federation = Federation(tmp_path / "flower", **more)
    done = federation.serve()
    assert not torch.equal(done.weights().parameters, serial.weights().parameters)
    assert json.loads((done.folder / "privacy.json").read_text()) == {"merges": 3}
    # What is spent is the same, and it is said.
    spent = [record["privacy"] for record in done.records]
    assert spent == [record["privacy"] for record in serial.records]
    assert any(f"epsilon {spent[-1]['epsilon']:.2f}" in line for line in federation.lines)
    assert any("round 3: 3 clients" in line for line in federation.lines)
    assert CLIENTS == 4
