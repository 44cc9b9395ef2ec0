"""Token ids as inputs: the same bits on every engine, also killed and resumed, and methods that cannot."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.simulation.running import resume, run
from tests.small_runs import FAST, Stopped, bits, stop_after


def ids() -> Federation:
    """Texts whose label is the number of a token that occurs in them."""
    rng = np.random.default_rng(0)
    x = rng.integers(3, 20, (240, 7)).astype(np.int16)
    y = rng.integers(0, 3, 240)
    x[np.arange(240), rng.integers(0, 7, 240)] = y
    return Federation.from_arrays(x, y, clients=5, alpha=100.0)


CONFIG: dict[str, Any] = {**FAST, "rounds": 3, "participation": 4, "training": {"epochs": 1, "lr": 0.05}}


@pytest.mark.parametrize("model", ["text_cnn", "text_bag"])
def test_engines_agree(tmp_path: Path, model: str) -> None:
    federation, values = ids(), {**CONFIG, "model": model}
    serial = run(values, federation=federation, out=tmp_path / "serial")
    assert serial.records[-1]["test"]["loss"] < serial.records[0]["test"]["loss"]
    process = run({**values, "engine": "process"}, federation=federation, out=tmp_path / "process")
    assert bits(process.folder) == bits(serial.folder)
    vectorized = run({**values, "engine": "vectorized"}, federation=federation, out=tmp_path / "vectorized")
    expected = serial.weights().parameters
    assert (vectorized.weights().parameters - expected).abs().max() < 1e-5
    assert vectorized.records[-1]["test"]["loss"] == pytest.approx(
        serial.records[-1]["test"]["loss"], rel=1e-4
    )


def test_stopped_and_resumed(tmp_path: Path) -> None:
    values = {**CONFIG, "model": "text_cnn"}
    calm = run(values, federation=ids(), out=tmp_path / "calm")
    with pytest.raises(Stopped):
        run(values, federation=ids(), out=tmp_path / "run", on_round=stop_after(2))
    resume(tmp_path / "run", federation=ids())
    assert bits(tmp_path / "run") == bits(calm.folder)


@pytest.mark.parametrize("method", ["scaffold", "fedntd", "moon", "fedcurv", "fedsam"])
def test_methods_take_token_ids(tmp_path: Path, method: str) -> None:
    values = {**CONFIG, "rounds": 2, "model": "text_bag", "method": method}
    assert run(values, federation=ids(), out=tmp_path / "run").finished


def test_a_method_that_changes_inputs_is_refused(tmp_path: Path) -> None:
    values = {**CONFIG, "model": "text_bag", "method": "fedreg"}
    with pytest.raises(InputError, match="fedreg requires real-valued inputs, not integers"):
        run(values, federation=ids(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
