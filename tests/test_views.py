"""Looking at runs from Python: compared, diagnosed, drawn, reported."""

from pathlib import Path

import pytest

import eunoe
from eunoe.errors import InputError
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from tests.helpers import blobs

SMALL = {"rounds": 3, "participation": 2, "probes": [], "engine": "serial", "evaluation": {"every": 1}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp("runs")
    return [
        run(federation=blobs(), model="mlp", out=folder / f"{loss}-{seed}", loss=loss, seed=seed, **SMALL)
        for loss, seed in (("ce", 0), ("ce", 1), ("wsm", 0))
    ]


def test_runs_folders_and_folders_of_runs_are_compared_alike(made: list[Run]) -> None:
    text = repr(eunoe.compare(made))
    assert [line.split("  ")[0] for line in text.splitlines()[2:]] == ["fedavg · ce", "fedavg · wsm"]
    assert repr(eunoe.compare(made[0].folder.parent)) == text
    assert repr(eunoe.compare([str(one.folder) for one in made])) == text
    assert eunoe.compare(made[0]).rows[0].mean("accuracy") == made[0].accuracy
    with pytest.raises(InputError, match="contains no run"):
        eunoe.compare(made[0].folder / "states")


def test_a_diagnosis_is_text(made: list[Run]) -> None:
    found = eunoe.diagnose(made[0])
    assert repr(found).splitlines()[: len(found.sentences)] == list(found.sentences)


def test_figures_are_charts(made: list[Run]) -> None:
    charts = eunoe.figures(made)
    assert list(charts)[:3] == ["accuracy", "round-forgetting", "distribution"]
    chart = charts["accuracy"].to_dict(validate=False)
    assert chart["description"].startswith("Accuracy of the global model.")
    assert all(f"fedavg · {loss}" in str(chart["datasets"]) for loss in ("ce", "wsm"))


def test_a_report_is_written(made: list[Run], tmp_path: Path) -> None:
    path = eunoe.write_report(made, tmp_path / "new" / "report.html")
    assert "fedavg · wsm" in path.read_text("utf-8")


def test_the_public_names_are_listed() -> None:
    assert dir(eunoe) == sorted(eunoe.__all__)
    assert all(hasattr(eunoe, name) for name in dir(eunoe))
