"""MLflow: what is in its data base afterwards is what the run recorded."""

from pathlib import Path

import pytest

from eunoe.errors import Diverged
from eunoe.simulation.running import resume, run
from tests.helpers import blobs
from tests.trackers.noted import SMALL, failing, tracked


def test_mlflow_has_the_scalars_and_figures_of_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    # To make a data base takes long.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    uri = (tmp_path / "mlflow").as_uri()
    section = {"name": "mlflow", "uri": uri, "experiment": "trial"}
    federation = blobs()
    run(federation=federation, model="mlp", out=tmp_path / "run", track=[section], **{**SMALL, "rounds": 2})
    made = resume(tmp_path / "run", {"rounds": 3}, federation=federation, model="mlp")
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("trial")
    assert experiment is not None
    # A run that goes on after a break stays one run.
    (found,) = client.search_runs([experiment.experiment_id])
    history = {m.step: m.value for m in client.get_metric_history(found.info.run_id, "test/accuracy")}
    assert history == {record["round"]: record["test"]["accuracy"] for record in made.records}
    assert found.info.status == "FINISHED"
    files = [file.path for file in client.list_artifacts(found.info.run_id, "figures")]
    assert "figures/accuracy.png" in files


def test_mlflow_tells_runs_that_failed_from_those_that_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    uri = (tmp_path / "mlflow").as_uri()
    for error in (KeyboardInterrupt, Diverged, OSError):
        name, section = error.__name__, {"name": "mlflow", "uri": uri}
        with pytest.raises(error):
            tracked(tmp_path / name, section, name=name, on_round=failing(error))
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("eunoe")
    assert experiment is not None
    found = {made.info.run_name: made.info.status for made in client.search_runs([experiment.experiment_id])}
    assert found == {"KeyboardInterrupt": "KILLED", "Diverged": "FAILED", "OSError": "FAILED"}
