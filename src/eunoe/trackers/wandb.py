"""Tracking with Weights & Biases."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from PIL import Image
from pydantic import Field, PrivateAttr

from eunoe.errors import Outcome
from eunoe.trackers.base import TrackedRun, Tracker


class WandB(Tracker):
    """Weights & Biases: online, or offline in the run folder for `wandb sync`."""

    project: str = Field("eunoe", description="The project that the run belongs to.")
    entity: str | None = Field(None, description="The user or team; by default that of the login.")
    offline: bool = Field(False, description="Write into the run folder only.")

    needs = "wandb"
    _run: Any = PrivateAttr(None)

    def start(self, run: TrackedRun) -> None:
        import wandb

        self._run = wandb.init(
            project=self.project,
            entity=self.entity,
            dir=str(run.place),
            id=run.identity,
            resume="allow",
            name=run.title,
            config=dict(run.config),
            mode="offline" if self.offline else None,
            # The progress bar owns the console, and nobody may answer a prompt.
            settings=wandb.Settings(console="off", silent=True, login_timeout=60),
        )

    def scalars(self, round: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=round)

    def figure(self, round: int, name: str, png: bytes) -> None:
        import wandb

        self._run.log({f"figures/{name}": wandb.Image(Image.open(BytesIO(png)))}, step=round)

    def close(self, outcome: Outcome) -> None:
        # 255 marks a run that the user ended.
        self._run.finish({"finished": 0, "interrupted": 255}.get(outcome, 1))
