"""Folders that version 0.1 wrote can be read, reported, compared, resumed and continued."""

import json
import shutil
from pathlib import Path

import pytest

import eunoe
from eunoe.errors import InputError
from eunoe.search.tune import tune
from eunoe.store.reader import read_run, read_run_config

OLD = Path(__file__).parent / "v0_1"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the folders, which may be written to."""
    return Path(shutil.copytree(OLD, tmp_path / "v0_1"))


def test_a_run_is_read_under_the_new_names(caplog: pytest.LogCaptureFixture) -> None:
    run = read_run(OLD / "run")
    assert run.checked_config.aggregation.name == "median"
    assert len(run.metrics) == 4
    assert {probe["probe"] for probe in run.probes} == {"client_matrix", "local_per_class", "drift"}
    assert run.round_forgetting > 0
    assert run.sent_forgetting > 0
    # What the checkpoint has of the files is still what is there.
    assert not caplog.records


def test_runs_are_reported_and_compared(tmp_path: Path) -> None:
    page = eunoe.write_report([OLD / "run", OLD / "sweep"], tmp_path / "report.html").read_text()
    assert "scaffold" in page
    comparison = eunoe.compare([OLD / "run", OLD / "sweep"])
    assert [row.seeds for row in comparison.rows] == [(1,), (0, 1)]
    assert str(eunoe.diagnose(OLD / "run"))


def test_a_run_is_resumed(old: Path) -> None:
    before = (old / "run" / "metrics.jsonl").read_bytes()
    run = eunoe.resume(old / "run", rounds=6)
    assert [record["round"] for record in run.records] == [1, 2, 3, 4, 5, 6]
    assert (old / "run" / "metrics.jsonl").read_bytes().startswith(before)
    assert "merge" not in read_run_config(old / "run")
    fresh = eunoe.run(read_run_config(old / "run"), out=old / "fresh")
    # Another type of CPU may differ in the last bits.
    assert run.accuracy == pytest.approx(fresh.accuracy, abs=0.05)


def test_a_run_goes_back_to_an_earlier_round(old: Path) -> None:
    run = eunoe.resume(old / "run", from_round=3)
    assert len(run.records) == 4


def test_a_search_is_continued(old: Path) -> None:
    journal = old / "tune" / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    # Without the result of the last trial, as if the search had been cut off.
    journal.write_text("".join(lines[:-2]))
    config = json.loads(lines[0])["plan"]["config"]
    config["aggregation"] = config.pop("merge")
    tuned = tune(config, {"training.lr": [0.03, 0.1, 0.3]}, old / "tune", seeds=[0])
    assert tuned.complete
    assert [(trial.settings["training.lr"], trial.rounds) for trial in tuned.trials] == [
        (0.3, 4),
        (0.1, 2),
        (0.03, 1),
    ]
    # Read from the run, which was finished.
    assert tuned.best.accuracy == json.loads(lines[-2])["accuracy"]


def test_a_cure_is_not_continued_since_it_judged_otherwise(old: Path) -> None:
    with pytest.raises(InputError, match=r"run-cure holds a cure of version 0\.1.*pass another --out"):
        eunoe.cure(old / "cure" / "run", progress=False)
    assert (old / "cure" / "run-cure" / "journal.jsonl").read_bytes() == (
        OLD / "cure" / "run-cure" / "journal.jsonl"
    ).read_bytes()
