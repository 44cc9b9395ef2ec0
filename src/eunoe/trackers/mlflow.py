"""Tracking with MLflow."""

import time
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from PIL import Image
from pydantic import Field, PrivateAttr

from eunoe.config.settings import to_toml
from eunoe.errors import Outcome
from eunoe.trackers.base import TrackedRun, Tracker

_TAG = "eunoe.run"


class MLflow(Tracker):
    """MLflow: a run in a tracking server or database."""

    uri: str | None = Field(None, description="The tracking server or database; by default MLflow's own.")
    experiment: str = Field("eunoe", description="The experiment that the run belongs to.")

    needs = "mlflow"
    _client: Any = PrivateAttr(None)
    _id: str = PrivateAttr("")

    def start(self, run: TrackedRun) -> None:
        from mlflow import MlflowClient

        self._client = client = MlflowClient(self.uri)
        known = client.get_experiment_by_name(self.experiment)
        experiment = known.experiment_id if known else client.create_experiment(self.experiment)
        resumed = client.search_runs([experiment], f"tags.`{_TAG}` = '{run.identity}'")
        tags = {_TAG: run.identity}
        entry = resumed[0] if resumed else client.create_run(experiment, tags=tags, run_name=run.title)
        self._id = entry.info.run_id
        client.update_run(self._id, "RUNNING")
        client.log_text(self._id, to_toml(run.config), "config.toml")

    def scalars(self, round: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self._id, [Metric(name, value, now, round) for name, value in values.items()])

    def figure(self, round: int, name: str, png: bytes) -> None:
        self._client.log_image(self._id, Image.open(BytesIO(png)), f"figures/{name}.png")

    def close(self, outcome: Outcome) -> None:
        status = {"finished": "FINISHED", "interrupted": "KILLED"}.get(outcome, "FAILED")
        self._client.set_terminated(self._id, status)
