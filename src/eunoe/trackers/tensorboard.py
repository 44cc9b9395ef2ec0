"""Tracking with TensorBoard."""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pydantic import Field, PrivateAttr

from eunoe.config.settings import to_toml
from eunoe.errors import Outcome
from eunoe.trackers.base import TrackedRun, Tracker


class TensorBoard(Tracker):
    """TensorBoard: event files in the run folder, to be shown by `tensorboard --logdir`."""

    folder: Path | None = Field(None, description="Folder of the event files; by default in the run folder.")

    needs = "tensorboard"
    _writer: Any = PrivateAttr(None)

    def start(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # After resuming, events of repeated rounds are hidden.
        folder = self.folder or run.place / "tensorboard"
        self._writer = SummaryWriter(str(folder), purge_step=run.first_round if run.first_round > 1 else None)
        self._writer.add_text("config", f"```toml\n{to_toml(run.config)}\n```", 0)

    def scalars(self, round: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, round)

    def figure(self, round: int, name: str, png: bytes) -> None:
        pixels = np.asarray(Image.open(BytesIO(png)).convert("RGB"))
        self._writer.add_image(f"figures/{name}", pixels, round, dataformats="HWC")

    def close(self, outcome: Outcome) -> None:
        self._writer.close()
