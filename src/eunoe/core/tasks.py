"""Prediction tasks: classification, multilabel, regression and language modeling.

A task compares outputs [B, outputs] with targets: classes [B] as integers, labels [B, labels] as 0 and 1, or
numbers [B, outputs] standardized by the training part. A language model has outputs [B, length, tokens], and
its targets are the next tokens [B, length]. A task also owns the names that tables and figures show.
Losses, methods, metrics, partitions and streams declare the tasks they support (`tasks`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from eunoe.config import registry
from eunoe.config.registry import KINDS
from eunoe.errors import InputError

TaskName = Literal["classification", "multilabel", "regression", "language_model"]
CLASSES: tuple[TaskName, ...] = ("classification",)
LABELED: tuple[TaskName, ...] = ("classification", "multilabel")
EVERY: tuple[TaskName, ...] = ("classification", "multilabel", "regression", "language_model")


class Task(ABC):
    """A prediction task: how outputs are scored, and the names shown for its numbers."""

    name: ClassVar[TaskName]
    # The default loss of clients, and what the recorded loss is.
    loss: ClassVar[str]
    loss_title: ClassVar[str]
    # The main metric, which is at most 1: its key in records and its display name.
    metric: ClassVar[str]
    title: ClassVar[str]
    # Forgetting is measured per unit: the names of one unit, of several, and of the metric of a unit.
    unit: ClassVar[str]
    units: ClassVar[str]
    unit_metric: ClassVar[str]
    # The name of the metric that clients are compared by.
    client_metric: ClassVar[str]
    # The name of a model's outputs.
    outputs: ClassVar[str]
    # The value of the main metric for a run that diverged.
    floor: ClassVar[float] = 0.0

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each sample [B] that models are evaluated with, whatever the training loss."""

    @abstractmethod
    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the score of each sample [B]; the best is 1."""

    @abstractmethod
    def predict(self, outputs: Tensor) -> Tensor:
        """Return the predictions in the form of the targets."""

    @abstractmethod
    def probabilities(self, outputs: Tensor) -> Tensor:
        """Return the probabilities of classes or labels; for regression the outputs themselves."""

    def counts(self, targets: Tensor, owners: Tensor, clients: int, outputs: int) -> Tensor:
        """Count the samples of each client per class or label; of other tasks all [clients, outputs]."""
        return torch.bincount(owners, minlength=clients)[:, None].expand(clients, outputs)


@dataclass(frozen=True)
class Classification(Task):
    """One of several classes per sample."""

    name = "classification"
    loss, loss_title = "ce", "cross-entropy"
    metric, title = "accuracy", "accuracy"
    unit, units, unit_metric, client_metric = "class", "classes", "accuracy", "accuracy"
    outputs = "classes"

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, reduction="none")

    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.argmax(1) == targets

    def predict(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(1)

    def probabilities(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(1)

    def counts(self, targets: Tensor, owners: Tensor, clients: int, outputs: int) -> Tensor:
        cells = torch.bincount(owners * outputs + targets, minlength=clients * outputs)
        return cells.view(clients, outputs)


@dataclass(frozen=True)
class MultiLabel(Task):
    """Any number of labels per sample; each is predicted independently."""

    name = "multilabel"
    loss, loss_title = "bce", "binary cross-entropy, mean over labels"
    metric, title = "f1", "macro-F1"
    unit, units, unit_metric = "label", "labels", "balanced accuracy"
    client_metric = "fraction of correct labels"
    outputs = "labels"

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        targets = targets.to(outputs.dtype)
        return F.binary_cross_entropy_with_logits(outputs, targets, reduction="none").mean(1)

    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return ((outputs > 0) == (targets > 0)).double().mean(1)

    def predict(self, outputs: Tensor) -> Tensor:
        return (outputs > 0).long()

    def probabilities(self, outputs: Tensor) -> Tensor:
        return outputs.sigmoid()

    def counts(self, targets: Tensor, owners: Tensor, clients: int, outputs: int) -> Tensor:
        return torch.zeros(clients, outputs, dtype=torch.int64).index_add_(0, owners, targets.long())


@dataclass(frozen=True)
class Regression(Task):
    """Real numbers, standardized by the mean and standard deviation of each in the training part."""

    name = "regression"
    loss = "mse"
    loss_title = "squared error divided by the variance of the training targets (1: predict their mean)"
    metric, title = "r2", "R²"
    unit, units, unit_metric, client_metric = "client", "clients", "explained variance", "explained variance"
    outputs = "targets"
    floor = -1.0

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs, targets.to(outputs.dtype), reduction="none").mean(1)

    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return 1 - self.losses(outputs, targets)

    def predict(self, outputs: Tensor) -> Tensor:
        return outputs

    def probabilities(self, outputs: Tensor) -> Tensor:
        return outputs

    def standardize(self, targets: Tensor) -> Tensor:
        """Convert targets to the scale of a model's outputs."""
        mean, std = (torch.tensor(values, dtype=torch.float64) for values in (self.mean, self.std))
        return ((targets.double() - mean) / std).float()

    def to_units(self, outputs: Tensor) -> Tensor:
        """Convert a model's outputs to the units of the data."""
        return outputs * outputs.new_tensor(self.std) + outputs.new_tensor(self.mean)


@dataclass(frozen=True)
class LanguageModel(Task):
    """The next token at each place of a block of text; a sample is a block."""

    name = "language_model"
    loss, loss_title = "next_token", "cross-entropy per token"
    metric, title = "token_accuracy", "token accuracy"
    unit, units, unit_metric, client_metric = "client", "clients", "token accuracy", "token accuracy"
    outputs = "tokens"

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        losses = F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
        return losses.view(targets.shape).mean(1)

    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.argmax(2) == targets).double().mean(1)

    def predict(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(2)

    def probabilities(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(2)


CLASSIFICATION = Classification()
MULTILABEL = MultiLabel()
LANGUAGE_MODEL = LanguageModel()
TASKS: tuple[type[Task], ...] = (Classification, MultiLabel, Regression, LanguageModel)


class Supporting(Protocol):
    """A component that declares the tasks it supports."""

    tasks: ClassVar[tuple[TaskName, ...]]


def supports(component: Supporting, task: Task) -> bool:
    """Return whether a component supports a task."""
    return task.name in component.tasks


def check_task(component: Supporting, task: Task, kind: str, name: str) -> None:
    """Raise InputError if a named component does not support the task of the data."""
    if supports(component, task):
        return
    of = KINDS[kind]
    names = [other for other in of.names if supports(cast(Supporting, registry.find(kind, other)), task)]
    raise InputError(
        f"{of.label} {name!r} supports {' and '.join(component.tasks)}, not {task.name}: use "
        f"{'one of ' if len(names) > 1 else ''}{', '.join(names)}"
    )
