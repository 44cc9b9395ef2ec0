"""A run as a Python user reads it: metrics as arrays, the trained model, its predictions."""

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eunoe.config.schema import Config
from eunoe.core.flat_model import Weights
from eunoe.data.checks import InputLike
from eunoe.data.federation import Federation
from eunoe.engines.simulation import Simulation
from eunoe.losses.base import Loss
from eunoe.methods.base import Method
from eunoe.models.raw import raw_model
from eunoe.server.optimizers import ServerOptimizer
from eunoe.simulation.build import assemble
from eunoe.simulation.saved_model import Which, predict, saved_weights
from eunoe.simulation.user_objects import split_user_objects
from eunoe.store.reader import read_run
from eunoe.store.run_records import check_recorded


class Run:
    """A run: its metrics as arrays, its final model, its predictions.

    User-provided objects that the run was started with must be passed again, since its model needs them.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        federation: Federation | None = None,
        model: nn.Module | None = None,
        method: Method | None = None,
        loss: Loss | None = None,
        server_optimizer: ServerOptimizer | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.read = read_run(self.folder, begun=False)
        self.values = self.read.config
        own = {"model": model, "method": method, "loss": loss, "server_optimizer": server_optimizer}
        own = {key: value for key, value in own.items() if value is not None}
        self._objects, _ = split_user_objects(federation, own)

    @property
    def config(self) -> Config:
        return self.read.checked_config

    @property
    def records(self) -> Sequence[Mapping[str, Any]]:
        """One record per round."""
        return self.read.metrics

    @property
    def status(self) -> Mapping[str, Any]:
        """The state of the run (running, finished, ...), its last round, and the reason it ended."""
        return self.read.status

    @property
    def finished(self) -> bool:
        return bool(self.status["state"] == "finished")

    def series(self, path: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The rounds that have a metric, such as "test.accuracy" or "forgetting.round", and its values."""
        check_recorded(self.read.metrics, path)
        return self.read.series(path)

    def final(self, path: str) -> float:
        """The mean of a metric over the last rounds that have it, as many as `evaluation.last` says."""
        check_recorded(self.read.metrics, path)
        return self.read.final(path)

    @property
    def accuracy(self) -> float:
        """Mean test accuracy over the last rounds."""
        return self.read.final("test.accuracy")

    @property
    def score(self) -> float:
        """Mean test accuracy over the last rounds, or macro-F1 or R² as the task has it."""
        return self.read.score

    @property
    def forgetting(self) -> float:
        """Mean round forgetting over the whole run."""
        return self.read.round_forgetting

    @cached_property
    def simulation(self) -> Simulation:
        return assemble(self.config, self._objects)[0]

    def weights(self, which: Which = "last", client: int | None = None) -> Weights:
        """The last model, or the best on validation; of a run without a global model, a client's own."""
        return saved_weights(self.folder, self.simulation, which, client)

    def model(self, which: Which = "last", raw: bool = False, client: int | None = None) -> nn.Module:
        """The last model, or the best on validation, as an ordinary module of its own, in evaluation mode.

        It takes inputs as Eunoe's preprocessing makes them; with `raw`, inputs as they are stored. A run
        without a global model (`local`) has one for each client.
        """
        model = copy.deepcopy(self._loaded(which, client))
        if not raw:
            return model
        whole = raw_model(model, self.simulation.federation)
        return whole.to(self.simulation.model.device).eval()

    def _loaded(self, which: Which = "last", client: int | None = None) -> nn.Module:
        """Return the simulation's own module with the weights of a model loaded, until others are."""
        self.simulation.model.load(self.weights(which, client))
        return self.simulation.model.module.eval()

    def predict(
        self, x: InputLike, prior: ArrayLike | Tensor | None = None, client: int | None = None
    ) -> NDArray[Any]:
        """Return the predicted class of each input (in the form of the training inputs), by the last model.

        Of several labels it is a row of 0 and 1, of numbers one in the units of the data. With a `prior`, the
        class shares or counts at some client, it is that client's own; `client` says by whose own model.
        """
        self._loaded(client=client)
        return predict(self.simulation, x, prior)

    def _repr_html_(self) -> str | None:
        """Return the notebook view; before the first round has ended, the plain text."""
        from eunoe.report.notebook import html

        return html(self.read, self.folder) if self.read.metrics else None

    def __repr__(self) -> str:
        state = self.status["state"]
        numbers = f"{self.read.task.title} {self.score:.3f}, round forgetting {self.forgetting:.4f}"
        done = f"{state} after round {len(self.read.metrics)}"
        return f"Run({self.config.title!r}, {done}, {numbers}, folder {str(self.folder)!r})"
