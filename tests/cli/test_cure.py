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
    small = eunoe("cure", "base", "--budget", "0.01s")
    assert small.code == 2
    assert "use at least" in small.error
    assert len(small.error.splitlines()) == 1
    outcome = eunoe("cure", "base", "--budget", "1h", "--jobs", 2)
    assert outcome.code == 0, outcome.error
    assert "On fresh seeds" in outcome.out
    assert "larger steps: +" in outcome.out
    assert "on validation over 5 fresh seeds" in outcome.out
    assert (tmp_path / "base-cure" / "report.html").exists()
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("config: eunoe run ")]
    config = line.rpartition(" ")[2]
    assert eunoe("run", config, "--out", "cured", "--no-report").code == 0
