"""`eunoe demo`, made short."""

from pathlib import Path

import pytest

from eunoe.cli import demo
from tests.cli.command import eunoe


def test_the_demo_shows_three_losses_and_where_the_results_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(demo.SETTING, "rounds", 2)
    monkeypatch.setattr(demo, "SEEDS", (3, 4))
    outcome = eunoe("demo", "--out", tmp_path / "demo")
    assert outcome.code == 0, outcome.error
    for words in (*demo.LOSSES.values(), "accuracy", "forgetting", "seconds", "±", f"results in {tmp_path}"):
        assert words in outcome.out
    assert "warning" not in outcome.out
    assert len(list(tmp_path.rglob("metrics.jsonl"))) == 6
    # A second time everything is there already.
    assert "round 2/2" not in eunoe("demo", "--out", tmp_path / "demo").out
