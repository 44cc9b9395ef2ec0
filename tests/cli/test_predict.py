"""`eunoe predict`: from a CSV file to predictions on raw rows."""

import csv
from pathlib import Path

import numpy as np
import pytest

from eunoe import Run
from eunoe.errors import InputError
from tests.cli.command import eunoe

ARGUMENTS = [
    *("--set", "data={name='table', path='patients.csv', label='outcome'}"),
    *("--set", "partition={name='iid', clients=2}", "--set", "participation=2", "--set", "rounds=8"),
    *("--set", "model.name=logistic", "--set", "engine.name=serial", "--set", "training.lr=0.5"),
]
ROWS = "".join(
    f"{'' if n % 9 == 0 else n % 2},{('red', 'blue')[n % 2]},{('ill', 'well')[n % 2]}\n" for n in range(90)
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("patients.csv").write_text("mark,color,outcome\n" + ROWS)
    outcome = eunoe("run", *ARGUMENTS, "--out", "run")
    assert outcome.code == 0, outcome.error
    return tmp_path


def test_from_a_table_to_predictions(folder: Path) -> None:
    Path("new.csv").write_text("id,color,mark\n7,red,0\n8,blue,\n9,blue,1\n")
    shown = eunoe("predict", "run", "new.csv")
    assert shown.code == 0, shown.error
    rows = list(csv.DictReader(shown.out.splitlines()))
    assert [row["prediction"] for row in rows] == ["ill", "well", "well"]
    assert all(float(row["P(ill)"]) + float(row["P(well)"]) == pytest.approx(1, abs=2e-6) for row in rows)
    written = eunoe("predict", "run", "new.csv", "--out", "predictions.csv")
    assert written.out == "wrote 3 predictions to predictions.csv\n"
    assert Path("predictions.csv").read_text() == shown.out
    assert eunoe("predict", "run", "new.csv", "--last").out == shown.out

    run = Run("run")
    dicts = [{"mark": 0, "color": "red"}, {"mark": "", "color": "blue"}, {"mark": 1, "color": "blue"}]
    assert run.predict(dicts).tolist() == ["ill", "well", "well"]
    found = run.predict(dicts, probabilities=True)
    np.testing.assert_allclose(found[:, 0], [float(row["P(ill)"]) for row in rows], atol=1e-6)
    best = list(csv.DictReader(eunoe("predict", "run", "new.csv", "--best").out.splitlines()))
    wanted = run.predict(dicts, probabilities=True, which="best")
    np.testing.assert_allclose(wanted[:, 0], [float(row["P(ill)"]) for row in best], atol=1e-6)
    assert not np.allclose(wanted, found, atol=1e-3)
    with pytest.raises(InputError, match="x must have 2 cells in each row, in this order: mark, color"):
        run.predict(np.zeros((1, 3)))


def test_what_is_missing_is_named(folder: Path) -> None:
    assert eunoe("predict", "run", "none.csv").error == "error: there is no file none.csv\n"
    Path("new.csv").write_text("id,mark\n7,0\n")
    assert "has no column 'color'" in eunoe("predict", "run", "new.csv").error
