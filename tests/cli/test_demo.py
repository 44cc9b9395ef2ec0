"""`eunoe demo`, made short."""

import re
from pathlib import Path

import numpy as np
import pytest

from eunoe.cli import demo
from eunoe.store.reader import read_run
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
    assert "best checkpoint" in outcome.out
    (gain,) = re.findall(r"FedAvg \+ averaging: .* best checkpoint (\S+) points \[", outcome.out)
    best = [
        [series("test.accuracy")[1][series("validation.accuracy")[1].argmax()] for series in arm]
        for arm in (
            [read_run(tmp_path / "demo" / title / f"seed-{seed}").series for seed in demo.SEEDS]
            for title in ("FedAvg", "FedAvg_+_averaging")
        )
    ]
    assert float(gain) == pytest.approx(100 * (np.mean(best[1]) - np.mean(best[0])), abs=0.05)
    assert len(list(tmp_path.rglob("metrics.jsonl"))) == 8
    cells = {line.split("│")[1].strip(): line.split("│") for line in outcome.out.splitlines() if "│" in line}
    # SCAFFOLD sends its controls with the weights, both ways.
    assert [float(cells[title][6]) for title in demo.ARMS] == [1.0, 1.0, 1.0, 2.0]
    # FedAvg reaches in some round what it has in the mean of its last ones.
    assert int(cells["FedAvg"][5]) in (1, 2)
    # A second time everything is there already.
    assert "round 2/2" not in eunoe("demo", "--out", tmp_path / "demo").out
