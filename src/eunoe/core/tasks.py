"""What a model is to predict of a sample: its class, which labels it has, or numbers.

A task says how outputs [B, outputs] are compared with targets: classes [B] as integers, labels [B, labels] as
0 and 1, or numbers [B, outputs] that are standardized by the training part. Losses, methods, metrics,
partitions and streams declare which tasks they serve (`tasks`); what does not serve that of the data is
refused or left out by that alone.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from eunoe.config import registry
from eunoe.config.builtin import KINDS
from eunoe.errors import InputError

TaskName = Literal["classification", "multilabel", "regression"]
CLASSES: tuple[TaskName, ...] = ("classification",)
LABELED: tuple[TaskName, ...] = ("classification", "multilabel")
EVERY: tuple[TaskName, ...] = ("classification", "multilabel", "regression")


class Task(ABC):
    """What is predicted, and what that is called in tables and figures."""

    name: ClassVar[TaskName]
    # The name of the loss that clients minimize by default.
    loss: ClassVar[str]
    # The metric that models are chosen and compared by, at most 1, and what it is called.
    metric: ClassVar[str]
    title: ClassVar[str]
    # What is forgotten, of what, and what a model's outputs are called.
    known: ClassVar[str]
    unit: ClassVar[str]
    outputs: ClassVar[str]
    # The value of the metric for a run that diverged.
    floor: ClassVar[float] = 0.0

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The plain loss [B], which models are evaluated by, whatever loss they are trained with."""

    @abstractmethod
    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """How right a model is on each sample [B]: 1 at best."""

    @abstractmethod
    def predicted(self, outputs: Tensor) -> Tensor:
        """The predictions, in the form of the targets."""

    @abstractmethod
    def beliefs(self, outputs: Tensor) -> Tensor:
        """Probabilities of classes or labels; numbers are as they are."""

    @abstractmethod
    def counts(self, targets: Tensor, owners: Tensor, clients: int, outputs: int) -> Tensor:
        """How many samples each client has [clients, outputs] of every class, with every label or number."""


@dataclass(frozen=True)
class Classification(Task):
    """One class of several."""

    name = "classification"
    loss, metric, title = "ce", "accuracy", "accuracy"
    known, unit, outputs = "accuracy", "class", "classes"

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, reduction="none")

    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.argmax(1) == targets

    def predicted(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(1)

    def beliefs(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(1)

    def counts(self, targets: Tensor, owners: Tensor, clients: int, outputs: int) -> Tensor:
        cells = torch.bincount(owners * outputs + targets, minlength=clients * outputs)
        return cells.view(clients, outputs)


@dataclass(frozen=True)
class MultiLabel(Task):
    """Any of several labels at once; each is decided for itself."""

    name = "multilabel"
    loss, metric, title = "bce", "f1", "macro-F1"
    known, unit, outputs = "balanced accuracy", "label", "labels"

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        targets = targets.to(outputs.dtype)
        return F.binary_cross_entropy_with_logits(outputs, targets, reduction="none").mean(1)

    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return ((outputs > 0) == (targets > 0)).double().mean(1)

    def predicted(self, outputs: Tensor) -> Tensor:
        return (outputs > 0).long()

    def beliefs(self, outputs: Tensor) -> Tensor:
        return outputs.sigmoid()

    def counts(self, targets: Tensor, owners: Tensor, clients: int, outputs: int) -> Tensor:
        found = torch.zeros(clients, outputs, dtype=torch.int64)
        return found.index_add_(0, owners, targets.long())


@dataclass(frozen=True)
class Regression(Task):
    """Numbers; mean and standard deviation of each in the training part turn them into those of a model."""

    name = "regression"
    loss, metric, title = "mse", "r2", "R²"
    known, unit, outputs = "explained variance", "client", "numbers to predict"
    floor = -1.0

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(outputs, targets.to(outputs.dtype), reduction="none").mean(1)

    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return 1 - self.losses(outputs, targets)

    def predicted(self, outputs: Tensor) -> Tensor:
        return outputs

    def beliefs(self, outputs: Tensor) -> Tensor:
        return outputs

    def counts(self, targets: Tensor, owners: Tensor, clients: int, outputs: int) -> Tensor:
        return torch.bincount(owners, minlength=clients)[:, None].expand(clients, outputs)

    def standardized(self, targets: Tensor) -> Tensor:
        """Numbers as a model gives them."""
        mean, std = (torch.tensor(one, dtype=torch.float64) for one in (self.mean, self.std))
        return ((targets.double() - mean) / std).float()

    def in_units(self, outputs: Tensor) -> Tensor:
        """What a model gives, in the units of the data."""
        return outputs * outputs.new_tensor(self.std) + outputs.new_tensor(self.mean)


CLASSIFICATION = Classification()
MULTILABEL = MultiLabel()
TASKS: tuple[type[Task], ...] = (Classification, MultiLabel, Regression)


class Serving(Protocol):
    """A component that declares the tasks it serves."""

    tasks: ClassVar[tuple[TaskName, ...]]


def serves(component: Serving, task: Task) -> bool:
    """Whether a component is for this task."""
    return task.name in component.tasks


def refuse_unless_serving(component: Serving, task: Task, kind: str, name: str) -> None:
    """Refuse a named component that is for other tasks than that of the data."""
    if serves(component, task):
        return
    fitting = [
        known for known in KINDS[kind].names if serves(cast(Serving, registry.find(kind, known)), task)
    ]
    raise InputError(
        f"{KINDS[kind].label} {name!r} is for {' and '.join(component.tasks)}, and these data are for "
        f"{task.name}: take {'one of ' if len(fitting) > 1 else ''}{', '.join(fitting)}"
    )
