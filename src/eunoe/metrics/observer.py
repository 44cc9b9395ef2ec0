"""`eunoe.Forgetting`: measure forgetting in any PyTorch training loop."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from typing_extensions import TypeIs

from eunoe.core.fields import Input, as_input, call, split
from eunoe.errors import InputError, join_names
from eunoe.metrics.base import Evaluation, Metric, Predictions, Role, Snapshot
from eunoe.metrics.evaluation import compute_metrics
from eunoe.metrics.global_forgetting import GlobalForgetting
from eunoe.metrics.local_models import ClientMatrix, Drift, LocalPerClass
from eunoe.metrics.named import round_metrics
from eunoe.system.files import plain

if TYPE_CHECKING:
    from eunoe.analysis.summary import Summary
    from eunoe.store.run_records import RunRecords

# Inputs may be tensors, or tuples or dicts of tensors; a dict may hold inputs and labels.
Batch = tuple[Any, Tensor] | Mapping[str, Any]
Batches = Batch | Iterable[Batch]
# Names of the labels in a batch that is a dict.
_LABELS = ("labels", "label", "targets", "target", "y")


class Forgetting:
    """Measure what a federated loop forgets: which class, in local training or in aggregation.

    `data` is the test set: a pair of tensors (x, y), or a loader of such batches; x may also be a tuple or
    dict of tensors, and a batch a dict with its labels under "labels", "label", "targets", "target" or "y".
    Call `start` before the first round (and again only if the global model changes between
    rounds); in each round call `local` once per client after its training, then `aggregated` once with the
    new global model. Models are left unchanged and no random number is drawn. `metrics` are additional ones,
    your own or by name.

    Example::

        watch = eunoe.Forgetting((x_test, y_test), classes=10)
        watch.start(model)
        for round in range(rounds):
            for client in clients:
                watch.local(client, train(model, client))
            watch.aggregated(model)
        print(watch.summary())
    """

    def __init__(
        self,
        data: Batches,
        classes: int,
        *,
        name: str = "run",
        class_names: Sequence[str] | None = None,
        batch_size: int = 512,
        metrics: Sequence[str | Metric] = (),
    ) -> None:
        if class_names is not None and len(class_names) != classes:
            raise InputError(f"there are {len(class_names)} class names for {classes} classes")
        self.data, self.classes, self.name, self.batch_size = data, classes, name, batch_size
        self.class_names = list(class_names) if class_names is not None else None
        self.metrics: list[dict[str, Any]] = []
        self.probes: list[dict[str, Any]] = []
        # Every global model is observed: a gap consists of rounds that left the model unchanged.
        self._global = round_metrics(metrics) | {"forgetting": GlobalForgetting(over_gaps=True)}
        self._of_clients = {
            "local_per_class": LocalPerClass(),
            "client_matrix": ClientMatrix(),
            "drift": Drift(),
        }
        every = [*self._global.values(), *self._of_clients.values()]
        # Of the newest model, where the average is evaluated.
        self._of_newest = round_metrics(metrics) | {"forgetting": GlobalForgetting(over_gaps=True)}
        self._logits = any("logits" in metric.needs for metric in every)
        self._started = False
        self._clients: list[int] = []
        self._hidden: list[int] = []

    def start(self, model: nn.Module) -> None:
        """Begin a round with the model that its clients start from."""
        self._begin_round(self._snapshot("start", model))

    def local(self, client: int, model: nn.Module, label_counts: ArrayLike | None = None) -> None:
        """Add a client's trained model; with its training label counts [classes], also client forgetting."""
        if not self._started:
            raise InputError("call start(model) with the model the clients start from before local(...)")
        if client in self._clients:
            raise InputError(f"client {client} was added twice: call aggregated(model) between rounds")
        self._clients.append(client)
        counts = None if label_counts is None else np.asarray(label_counts, np.float64)
        self._update(self._snapshot("local", model, client, counts))

    def hidden(self, client: int) -> None:
        """Add a client whose model is not visible, as under secure aggregation.

        A round of hidden clients has round forgetting only, not split into local training and aggregation.
        """
        self._hidden.append(client)

    def aggregated(
        self, model: nn.Module, round: int | None = None, average: nn.Module | None = None
    ) -> None:
        """End the round with the new global model, from which the next round starts.

        Rounds are counted from 1; pass `round` if the caller has a number, so that a round without
        aggregation leaves a gap. With `average`, such as `ModelAverage.model`, accuracy and round forgetting
        are those of the average.
        """
        if not self._started or not (self._clients or self._hidden):
            raise InputError("call start(model) and local(client, model) before aggregated(model)")
        number = round or self._next_round
        end = replace(self._snapshot("global", model), round=number)
        record = {"schema": 1, "round": number, "clients": self._clients + self._hidden, "dropped": []}
        if average is not None:
            record["sent"] = compute_metrics(self._of_newest, end)
        shown = end if average is None else replace(self._snapshot("global", average), round=number)
        self.metrics.append(plain(record | compute_metrics(self._global, shown)))
        self._update(end)
        for name, metric in self._of_clients.items() if self._clients else ():
            if numbers := metric.compute():
                self.probes.append(plain({"schema": 1, "round": number, "probe": name, **numbers}))
        self._begin_round(replace(end, role="start", round=self._next_round))

    @property
    def config(self) -> dict[str, Any]:
        """What is known of the run's settings, in the form of a config."""
        return {"name": self.name, "evaluation": {"last": 1}}

    @property
    def records(self) -> "RunRecords":
        """All measurements, in the form that figures and the report use."""
        if not self.metrics:
            raise InputError("nothing was measured yet: end a round with aggregated(model)")
        from eunoe.store.run_records import RunRecords

        return RunRecords(
            self.name, self.metrics, self.probes, config=self.config, class_names=self.class_names
        )

    def summary(self) -> "Summary":
        """Return the numbers so far as a dict, which prints as sentences."""
        from eunoe.analysis.summary import summarize

        return summarize(self.records)

    def report(self, path: str | Path) -> Path:
        """Write the report with all figures of this loop as one self-contained HTML file."""
        from eunoe.report.html import write_report

        return write_report([self.records], path)

    @property
    def _next_round(self) -> int:
        return int(self.metrics[-1]["round"]) + 1 if self.metrics else 1

    def _begin_round(self, start: Snapshot) -> None:
        self._started, self._clients, self._hidden = True, [], []
        for metric in self._of_clients.values():
            metric.reset()
        self._update(start)

    def _update(self, model: Snapshot) -> None:
        for metric in self._of_clients.values():
            if model.role in metric.sees:
                metric.update(model)

    def _snapshot(
        self, role: Role, model: nn.Module, client: int | None = None, counts: Any = None
    ) -> Snapshot:
        """Return a snapshot of a model, evaluated here so that the model need not be kept."""
        evaluations = {"test": self._evaluate(model)}
        parameters = torch.cat([p.detach().reshape(-1).double().cpu() for p in model.parameters()])
        return Snapshot(self._next_round, role, evaluations, parameters, client, counts)

    def _evaluate(self, model: nn.Module) -> Evaluation:
        """Return the model's predictions on the test set; the model is left unchanged."""
        training = [module for module in model.modules() if module.training]
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        outputs, targets = [], []
        model.eval()
        try:
            # Merely iterating a DataLoader draws from the global generator.
            with torch.inference_mode(), torch.random.fork_rng(devices=[]):
                for x, y in self._batches():
                    outputs.append(call(model, x.to(device)).cpu().double())
                    targets.append(y.cpu())
        finally:
            for module in training:
                module.training = True
        if not targets:
            raise InputError("the test data are empty")
        logits, labels = torch.cat(outputs), torch.cat(targets)
        if int(labels.max()) >= self.classes:
            raise InputError(f"the test data have label {int(labels.max())}, but classes={self.classes}")
        if logits.ndim != 2 or logits.shape[1] != self.classes:
            shape = list(logits.shape[1:])
            raise InputError(f"the model has outputs {shape} for each sample, but classes={self.classes}")
        losses = nn.functional.cross_entropy(logits, labels, reduction="none").numpy()
        probability = logits.softmax(1).sum(0).numpy()
        kept = logits.numpy() if self._logits else None
        predictions = Predictions(logits.argmax(1).numpy(), losses, probability, kept)
        return Evaluation(predictions, labels.numpy(), self.classes)

    def _batches(self) -> Iterable[tuple[Input, Tensor]]:
        if _is_batch(self.data):
            x, y = _split_batch(self.data)
            return zip(split(x, self.batch_size), torch.split(y, self.batch_size), strict=True)
        return map(_split_batch, self.data)


def first_input(data: Batches) -> Input:
    """Return the inputs of the first batch of test data."""
    return _split_batch(data if _is_batch(data) else next(iter(data)))[0]


def _is_batch(data: Batches) -> TypeIs[Batch]:
    """Return whether test data are one batch of inputs and labels, rather than several."""
    return isinstance(data, Mapping) or (
        isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], Tensor)
    )


def _split_batch(batch: Batch) -> tuple[Input, Tensor]:
    """Return the inputs and the labels of a batch; a dict with one other entry has a single input."""
    if isinstance(batch, Mapping):
        label = next((name for name in _LABELS if name in batch), None)
        if label is None:
            names = join_names(map(str, batch))
            raise InputError(f"a batch has {names}, none of which is 'labels': rename it or pass (x, y)")
        fields = {name: value for name, value in batch.items() if name != label and isinstance(value, Tensor)}
        batch = fields if len(fields) > 1 else next(iter(fields.values())), batch[label]
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise InputError("test data are a pair of tensors (x, y), or an iterable of such batches")
    x, y = as_input(batch[0]), batch[1]
    if len(x) != len(y):
        raise InputError(f"the test data have {len(x)} inputs and {len(y)} labels; pass equally many")
    return x, y
