"""A run as a Python user reads it: metrics as arrays, the trained model, its predictions."""

import copy
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.config.schema import Config
from eunoe.core.fields import gather
from eunoe.core.flat_model import Weights
from eunoe.core.tasks import Regression
from eunoe.data.federation import Federation
from eunoe.data.sources.inputs import read_inputs
from eunoe.data.sources.text import TextEncoder
from eunoe.engines.client_states import ClientStates
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.losses.base import Loss, adjust_for_prior
from eunoe.methods.base import Method
from eunoe.models.raw import raw_model
from eunoe.server.optimizers import ServerOptimizer
from eunoe.simulation.build import assemble
from eunoe.simulation.user_objects import split_user_objects
from eunoe.store.checkpoints import evaluated_model, newest_checkpoint, start_state
from eunoe.store.reader import find_run, read_run, read_status
from eunoe.store.run_records import check_recorded

logger = logging.getLogger(__name__)
Which = Literal["last", "best"]
_AT_ONCE = 500


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
        self.folder = find_run(Path(folder))
        self.read = read_run(self.folder, begun=False)
        self.values = self.read.config
        own = {"model": model, "method": method, "loss": loss, "server_optimizer": server_optimizer}
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
        simulation, folder, run_state = self.simulation, self.folder, start_state(self.simulation)
        saved, warnings = newest_checkpoint(folder)
        for warning in warnings:
            logger.warning(warning)
        if saved is None or not saved.round:
            raise InputError(f"{folder} has no model yet: the run has no checkpoint")
        if saved.round < read_status(folder).get("round", 0):
            logger.warning("%s is the newest checkpoint that is there, and there was a later one", saved.path)
        saved.load(run_state)
        if not simulation.method.aggregates:
            return self._own_weights(which, client, saved.manifest.accepted)
        if client is not None and simulation.private is not None and which == "last":
            states = self._states(client, saved.manifest.accepted)
            return simulation.private.put(evaluated_model(simulation, run_state), states.load(client))
        if client is not None:
            raise InputError("this run's clients share one model: leave the client out")
        if which == "last":
            return evaluated_model(simulation, run_state)
        if run_state.best is None:
            raise InputError(f"{folder} has no best model: nothing was evaluated on validation data")
        return run_state.best

    def _own_weights(self, which: Which, client: int | None, accepted: Mapping[int, int]) -> Weights:
        """Return the model of one client of a run without a global model."""
        if client is None:
            last = len(self.simulation.federation) - 1
            raise InputError(f"this run has no global model: name a client, 0 to {last}")
        state = self._states(client, accepted).load(client)
        if not state:
            raise InputError(f"client {client} has no model: it never took part")
        return self.simulation.method.own_model(state, which)

    def _states(self, client: int, accepted: Mapping[int, int]) -> ClientStates:
        """Return the clients' states; raise InputError if this is not one of them."""
        clients, states = len(self.simulation.federation), ClientStates(self.folder / "states")
        if not 0 <= client < clients:
            raise InputError(f"there is no client {client}: name one from 0 to {clients - 1}")
        states.accepted = dict(accepted)
        return states

    def model(self, which: Which = "last", raw: bool = False, client: int | None = None) -> nn.Module:
        """The last model, or the best on validation, as a separate `nn.Module` in evaluation mode.

        It takes inputs as Eunoe's preprocessing makes them; with `raw`, inputs as they are stored. A run
        without a global model (`local`) has one for each client.
        """
        model = copy.deepcopy(self._loaded(which, client))
        if not raw:
            return model
        return raw_model(model, self.simulation.federation).to(self.simulation.model.device).eval()

    def _loaded(self, which: Which = "last", client: int | None = None) -> nn.Module:
        """Load the weights of a model into the simulation's module and return it."""
        self.simulation.model.load(self.weights(which, client))
        return self.simulation.model.module.eval()

    def predict(
        self,
        x: Any,
        prior: ArrayLike | Tensor | None = None,
        client: int | None = None,
        probabilities: bool = False,
        which: Which = "last",
    ) -> NDArray[Any]:
        """Return the class of each input, by its name if classes have names, as a model predicts it.

        Inputs are arrays in the form of the training inputs, or raw ones: rows of a table (a DataFrame, a
        path of a CSV or Parquet file, dicts or lists), a list of sentences, paths of images. They are encoded
        as in training. Multilabel tasks give a row of 0 and 1, regression a row in the units of the data.

        With `probabilities` the result is [inputs, classes]. A `prior` of class shares or counts adapts the
        prediction to a client; `client` selects that client's own model. The model is the last one or, with
        `which="best"`, the best on validation data.
        """
        task, names = self.simulation.federation.task, self.simulation.federation.data.class_names
        if task.name == "language_model":
            raise InputError("a language model predicts tokens: use run.generate(prompt)")
        if probabilities and isinstance(task, Regression):
            raise InputError("regression has no probabilities: leave them out")
        if prior is not None and task.name != "classification":
            raise InputError(f"a prior is of classes, and these data are for {task.name}: leave it out")
        self._loaded(which, client)
        logits = self._logits(x)
        if prior is not None:
            logits = adjust_for_prior(logits, torch.as_tensor(np.asarray(prior), dtype=logits.dtype))
        if isinstance(task, Regression):
            logits = task.to_units(logits)
        answers = task.probabilities(logits) if probabilities else task.predict(logits)
        predicted: NDArray[Any] = answers.cpu().numpy()
        by_name = names is not None and predicted.ndim == 1
        return np.array(names)[predicted] if by_name else predicted

    def generate(self, prompt: str, tokens: int = 200, temperature: float = 1.0, seed: int = 0) -> str:
        """Return what a language model adds to a prompt; without sampling at temperature 0."""
        data = self.simulation.federation.data
        if data.task.name != "language_model" or data.encoding is None:
            raise InputError("only a language model of the text source can generate text")
        encoder = TextEncoder.from_dict(data.encoding)
        ids = encoder.tokens_of(prompt)
        if not ids or temperature < 0:
            raise InputError("generate needs a prompt of at least one token, and temperature >= 0")
        model, generator, start = self.simulation.model, torch.Generator().manual_seed(seed), len(ids)
        self._loaded()
        with model.evaluating(), torch.no_grad():
            for _ in range(tokens):
                x = torch.tensor([ids[-data.train.y.shape[1] :]], device=model.device)
                logits = model.forward(x)[0, -1].double().cpu()
                chances = F.one_hot(logits.argmax(), len(logits)).double()
                if temperature:
                    chances = (logits / temperature).softmax(0)
                ids.append(int(torch.multinomial(chances, 1, generator=generator)))
        return encoder.decode(ids[start:])

    def _logits(self, inputs: Any) -> Tensor:
        """Return the logits of the loaded model for arrays or raw inputs."""
        federation, model = self.simulation.federation, self.simulation.model
        backbone = federation.data.backbone
        x = read_inputs(inputs, federation.data if backbone is None else backbone.raw)
        if backbone is not None:
            x = backbone.features(x)
        with model.evaluating(), torch.no_grad():
            parts = torch.split(torch.arange(len(x)), _AT_ONCE)
            batches = (federation.preprocess(gather(x, part)) for part in parts)
            return torch.cat([model.forward(batch.to(model.device)) for batch in batches])

    def _repr_html_(self) -> str | None:
        """Return the notebook view; before the first round has ended, the plain text."""
        from eunoe.report.export import notebook_html

        return notebook_html(self.read, self.folder) if self.read.metrics else None

    def __repr__(self) -> str:
        state = self.status["state"]
        numbers = f"{self.read.task.title} {self.score:.3f}, round forgetting {self.forgetting:.4f}"
        done = f"{state} after round {len(self.read.metrics)}"
        return f"Run({self.config.title!r}, {done}, {numbers}, folder {str(self.folder)!r})"
