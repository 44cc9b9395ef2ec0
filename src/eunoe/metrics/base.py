"""The base of metrics and what they receive: snapshots of models with their predictions.

A metric collects models (`update`), then returns its numbers (`compute`). The same objects serve the rounds
and probes of a run, `eunoe.Forgetting` in any training loop and `eunoe.flower.measure`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import PrivateAttr
from torch import Tensor

from eunoe.config.options import Options
from eunoe.core.flat_model import Weights
from eunoe.core.rng import generator
from eunoe.core.tasks import CLASSES, CLASSIFICATION, LABELED, Task, TaskName
from eunoe.data.federation import Federation, SampleSet
from eunoe.metrics.sums import compute_sums, metrics_from_sums

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Role = Literal["start", "local", "global"]
Need = Literal["logits"]


@dataclass(frozen=True)
class Rows:
    """Samples to evaluate on: rows of a source and, for clients' rows, the owner of each.

    With `prior`, predictions are adjusted by the owner's class shares (of its training labels). With
    `logits`, the predictions include them.
    """

    source: SampleSet
    rows: Integers
    owners: Integers | None = None
    prior: bool = False
    logits: bool = False


def draw_test_rows(federation: Federation, samples: int, seed: int) -> Rows:
    """Return a fixed part of the test set, class-balanced for classification, to measure local models on."""
    labels = federation.data.test.y.numpy()
    order = generator(seed, "probe part").permutation(len(labels))
    if federation.task.name != "classification":
        return Rows("test", np.sort(order[:samples]))
    share = max(1, samples // federation.classes)
    rows = [order[labels[order] == label][:share] for label in range(federation.classes)]
    return Rows("test", np.sort(np.concatenate(rows)))


@dataclass(frozen=True)
class Predictions:
    """A model's predictions: class and plain loss of each sample, summed probabilities by class.

    For multilabel and regression tasks, `predicted` is [samples, outputs]. The logits (a model's outputs) are
    [samples, outputs], if requested.
    """

    predicted: NDArray[Any]
    losses: Floats
    probability: Floats
    logits: Floats | None = None

    def __len__(self) -> int:
        return len(self.losses)


def select(all: Predictions, index: NDArray[Any]) -> Predictions:
    """Return the predictions of some samples, or of all in another order; the sums stay as they are."""
    logits = None if all.logits is None else all.logits[index]
    return replace(all, predicted=all.predicted[index], losses=all.losses[index], logits=logits)


class Evaluator(Protocol):
    """Anything that can evaluate models; every engine can."""

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        """Return the predictions of each model on these samples."""


@dataclass(frozen=True)
class Evaluation:
    """A model's predictions on one set of samples, with labels and, for clients' samples, owners.

    Example::

        predictions = Predictions(np.array([0, 1, 1]), np.zeros(3), np.zeros(2))
        evaluation = Evaluation(predictions, labels=np.array([0, 0, 1]), class_count=2)
        evaluation.per_class  # array([0.5, 1. ])
    """

    predictions: Predictions
    labels: NDArray[Any]
    class_count: int
    owners: Integers | None = None
    task: Task = CLASSIFICATION

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """Whether the model is right, [samples]; for multilabel tasks [samples, labels]."""
        return np.equal(self.predictions.predicted, self.labels)

    @cached_property
    def scores(self) -> NDArray[Any]:
        """Score of each sample: right or not, fraction of correct labels, or 1 - squared error."""
        if self.task.name == "regression":
            return 1 - self.predictions.losses
        return self.right if self.task.name == "classification" else self.right.mean(axis=1)

    @cached_property
    def per_class(self) -> Floats:
        """Accuracy by class, NaN for a class without samples; balanced accuracy by label."""
        return np.array(self.standard["per_class"])

    @cached_property
    def standard(self) -> dict[str, Any]:
        """The standard metrics of the task, from sums over the samples."""
        return metrics_from_sums(self.task, compute_sums(self))

    @cached_property
    def knowledge(self) -> Floats | None:
        """What the model can forget: `per_class`, or without classes and labels `by_owner`."""
        return self.per_class if self.task.name in LABELED else self.by_owner

    @cached_property
    def by_owner(self) -> Floats | None:
        """Mean score by client, NaN for a client without samples; None if samples have no owners."""
        if self.owners is None or not (self.owners >= 0).any():
            return None
        owned = self.owners >= 0
        samples = np.bincount(self.owners[owned])
        totals = np.bincount(self.owners[owned], self.scores[owned])
        return np.where(samples > 0, totals / np.maximum(samples, 1), np.nan)

    @cached_property
    def loss(self) -> float:
        """Mean plain loss: cross-entropy, or the squared error of standardized targets."""
        return float(self.predictions.losses.mean())

    @property
    def logits(self) -> Floats:
        """Logits [samples, classes], for a metric that declares the need."""
        if self.predictions.logits is None:
            raise RuntimeError('a metric that uses logits must declare it: needs = ("logits",)')
        return self.predictions.logits

    @cached_property
    def probabilities(self) -> Floats:
        """Softmax of the logits; for multilabel tasks, their sigmoid."""
        if self.task.name == "multilabel":
            return np.asarray(0.5 * (1 + np.tanh(0.5 * self.logits)), np.float64)
        shifted = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True), np.float64)


@dataclass(frozen=True)
class Snapshot:
    """A model of a round, as a metric sees it: its evaluations, its parameters, its client.

    The evaluations of a round are `validation`, `client_test` and `test`, where these exist; numbers
    computed on clients' own machines are in `elsewhere`. `counts` are the training labels by class of
    the client that trained the local model, None if unknown.
    """

    round: int
    role: Role
    evaluations: Mapping[str, Evaluation]
    parameters: Tensor
    client: int | None = None
    counts: NDArray[Any] | None = None
    elsewhere: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Metric(Options, ABC):
    """Base of the metrics: fields are options; collected values are private attributes.

    In `metrics` of a config it receives the global model of each evaluated round, and its numbers are
    recorded under its name in metrics.jsonl. One that measures clients' models is named in `probes`, with its
    rounds.
    """

    # Which models of a round it receives.
    sees: ClassVar[tuple[Role, ...]] = ("global",)
    # Parts of the predictions that it needs besides classes and losses.
    needs: ClassVar[tuple[Need, ...]] = ()
    # The tasks that it supports.
    tasks: ClassVar[tuple[TaskName, ...]] = CLASSES

    def possible(self, federation: Federation) -> bool:
        """Return whether it can measure anything on these data."""
        return True

    def rows(self, federation: Federation, clients: Sequence[int], seed: int) -> Mapping[str, Rows]:
        """Return its own samples to evaluate on, by name; `clients` are those whose models it sees."""
        return {}

    def reset(self) -> None:
        """Drop what was collected in a round; called before the first model of the next one."""

    @abstractmethod
    def update(self, model: Snapshot) -> None:
        """Add a model; a round's start model comes first, then its local models, then the global one."""

    @abstractmethod
    def compute(self) -> Mapping[str, Any]:
        """Return the numbers of the round; empty if there are none."""

    def state(self) -> dict[str, Any]:
        """Return what later rounds depend on, saved in checkpoints: tensors and JSON values."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore such a state."""


class ValuesMetric(Metric):
    """A metric whose `update` leaves the numbers of the round in `_values`."""

    _values: dict[str, Any] = PrivateAttr(default_factory=dict)

    def compute(self) -> Mapping[str, Any]:
        return self._values


class EvaluationMetric(ValuesMetric):
    """A metric of single evaluations, such as an accuracy: recorded for each set of samples."""

    @abstractmethod
    def measure(self, evaluation: Evaluation) -> Any:
        """Return a number, or several by name; None if it is undefined."""

    def update(self, model: Snapshot) -> None:
        measured = {name: self.measure(evaluation) for name, evaluation in model.evaluations.items()}
        self._values = {name: value for name, value in measured.items() if value is not None}
