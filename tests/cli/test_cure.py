"""`eunoe cure` as a user types it."""

from pathlib import Path

import pytest

from eunoe.simulation.running import run
from tests.cli.command import eunoe
from tests.search.test_cure import LARGER, SLOW, tries


def test_a_cure_from_the_run_to_its_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries(monkeypatch, LARGER)
    monkeypatch.chdir(tmp_path)
    run({**SLOW, "rounds": 2}, out=tmp_path / "base")
    small = eunoe("cure", "base", "--budget", "0.01s", "--out", "small")
    assert small.code == 0
    assert "of 5 fresh seeds. Too few for a verdict: run the same command to continue." in small.out
    wrong = eunoe("cure", "base", "--metric", "auroc1")
    assert wrong.code == 2
    assert wrong.error.startswith("error: cure: metric: input should be 'balanced_accuracy', ")
    assert wrong.error.endswith("(not 'auroc1')\n")
    outcome = eunoe("cure", "base", "--budget", "1h", "--jobs", 2)
    assert outcome.code == 0, outcome.error
    assert "On fresh seeds" in outcome.out
    assert "over the baseline's best checkpoint" in outcome.out
    assert "5 fresh seeds" in outcome.out
    assert (tmp_path / "base-cure" / "report.html").exists()
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("config: eunoe run ")]
    config = line.rpartition(" ")[2]
    assert eunoe("run", config, "--out", "cured", "--no-report").code == 0
