"""The study of Shakespeare's plays, on a table of a few words."""

import csv
import lzma
import sys
from pathlib import Path
from typing import Any

import pytest

import eunoe

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import shakespeare


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with lzma.open(tmp_path / "plays.csv.xz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["part", "client", "text"])
        for play in ("ALL_S_WELL", "THE_FIRST_PART", "THE_TRAGEDY"):
            for speaker in range(8):
                for part, words in (("train", 30), ("test", 10), ("train", 0)):
                    writer.writerow([part, f"{play}_{speaker}", "to be or not " * words])
    shakespeare.divide(tmp_path / "plays.csv.xz", tmp_path)
    return tmp_path


def test_plays_are_divided_and_every_remedy_runs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    halves = {half: (home / f"{half}.csv").read_text() for half in ("old", "new")}
    assert "TRAGEDY" not in halves["old"]
    assert "TRAGEDY" in halves["new"]
    assert "FIRST_PART" not in halves["new"]

    def short(values: dict[str, Any], **more: Any) -> Any:
        more = {"rounds": 1, "training": {"steps": 2, "batch_size": 4, "lr": 0.01}, **more}
        return run({**values, **{key: more.pop(key) for key in ("rounds", "training")}}, **more)

    run = eunoe.run
    monkeypatch.setattr(eunoe, "run", short)
    shakespeare.pretrain(home)
    for name, changes in shakespeare.REMEDIES.items():
        done = eunoe.run(shakespeare.tune(home, name=name, **changes))
        assert done.records[-1]["retention"]["sets"]["old"]["loss"] > 0
