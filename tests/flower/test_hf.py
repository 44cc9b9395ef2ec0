"""A network with adapters in a Flower federation: the bits of the serial engine, and adapters alone sent."""

import pytest

pytest.importorskip("flwr")

from eunoe.simulation.running import run
from tests.flower.test_federation import Federation, assert_same, values
from tests.models.tiny_hf import tiny_values

pytestmark = pytest.mark.usefixtures("server_process")


def test_adapters_travel(tmp_path, monkeypatch):
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    tiny = tiny_values(tmp_path)
    more = {name: tiny[name] for name in ("data", "model", "training", "rounds")}
    served = Federation(tmp_path / "flower", **more).serve()
    assert_same(served, run(values(**more), out=tmp_path / "serial"))
    # Three clients a round, four bytes a number.
    assert served.records[0]["bytes_up"] == 3 * 4 * served.simulation.model.parameters.numel() < 4000
