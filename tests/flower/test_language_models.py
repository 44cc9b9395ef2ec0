"""Language models in a Flower federation: the bits of the serial engine."""

import pytest

pytest.importorskip("flwr")

from eunoe.simulation.running import run
from tests.flower.test_federation import Federation, assert_same, values
from tests.methods.test_l2_sp import REMEDIES
from tests.models.test_language_models import gpt_values
from tests.models.test_language_models import values as char_values

pytestmark = pytest.mark.usefixtures("server_process")
KEYS = ("data", "partition", "model", "training", "rounds", "retain")


@pytest.mark.parametrize("make", [char_values, gpt_values])
def test_bits_are_those_of_the_serial_engine(tmp_path, monkeypatch, make):
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    made = make(tmp_path)
    more = {"loss": "next_token", **{name: made[name] for name in KEYS}}
    served = Federation(tmp_path / "flower", **more).serve()
    assert_same(served, run(values(**more), out=tmp_path / "serial"))
    assert served.records[-1]["retention"]["sets"]["old"]["loss"] == served.records[-1]["test"]["loss"]


@pytest.mark.parametrize("remedy", REMEDIES)
def test_remedies_have_the_bits_of_the_serial_engine(tmp_path, remedy):
    more = {**REMEDIES[remedy], "retain": [{"name": "digits", "data": "digits"}], "rounds": 2}
    served = Federation(tmp_path / "flower", **more).serve()
    assert_same(served, run(values(**more), out=tmp_path / "serial"))
