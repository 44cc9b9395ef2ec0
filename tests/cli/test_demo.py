"""`eunoe demo`, made short."""

from pathlib import Path

import pytest

from eunoe.cli import demo
from tests.cli.command import eunoe


def test_the_demo_shows_what_each_arm_forgets_reaches_and_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(demo.CONFIG, "rounds", 2)
    monkeypatch.setattr(demo, "SEEDS", (3, 4))
    outcome = eunoe("demo", "--out", tmp_path / "demo")
    assert outcome.code == 0, outcome.error
    for words in (
        *demo.ARMS,
        "accuracy",
        "forgetting",
        "rounds to 0.",
        "bytes",
        "±",
        f"results in {tmp_path}",
    ):
        assert words in outcome.out
    assert "warning" not in outcome.out
    assert outcome.out.splitlines()[-1].startswith("FedAvg + averaging: ")
    assert "on validation over 2 seeds; round forgetting" in outcome.out
    assert len(list(tmp_path.rglob("metrics.jsonl"))) == 8
    cells = {line.split("│")[1].strip(): line.split("│") for line in outcome.out.splitlines() if "│" in line}
    # SCAFFOLD sends its controls with the weights, both ways.
    assert [float(cells[title][5]) for title in demo.ARMS] == [1.0, 1.0, 1.0, 2.0]
    # FedAvg reaches in some round what it has in the mean of its last ones.
    assert int(cells["FedAvg"][4]) in (1, 2)
    # A second time everything is there already.
    assert "round 2/2" not in eunoe("demo", "--out", tmp_path / "demo").out
