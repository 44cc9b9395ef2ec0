"""Networks with adapters on Ray: the bits of the serial engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eunoe.simulation.running import run
from tests.models.test_language_models import gpt_values
from tests.models.tiny_hf import tiny_values
from tests.small_runs import bits


@pytest.mark.slow
@pytest.mark.parametrize("make_values", [tiny_values, gpt_values])
def test_adapters_have_the_bits_of_the_serial_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_values: Callable[[Path], dict[str, Any]]
) -> None:
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    ray = pytest.importorskip("ray")
    values = make_values(tmp_path)
    serial = run(values, out=tmp_path / "serial")
    try:
        other = run({**values, "engine": {"name": "ray", "workers": 2}}, out=tmp_path / "ray")
    finally:
        ray.shutdown()
    assert bits(other.folder) == bits(serial.folder)
