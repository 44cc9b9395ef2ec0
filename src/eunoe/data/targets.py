"""The targets of samples: which task they are for, and how they are stored."""

from collections.abc import Sequence
from typing import NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from eunoe.core.tasks import CLASSIFICATION, MULTILABEL, Regression, Task, TaskName
from eunoe.data.checks import Array, as_tensor, label_array, plain_array
from eunoe.errors import InputError, nearest


class Targets(NamedTuple):
    """The targets of the training and the test part, what they are for, and how many outputs a model has."""

    task: Task
    train: Tensor
    test: Tensor
    outputs: int


def targets_of(
    y_train: ArrayLike | Tensor,
    y_test: ArrayLike | Tensor,
    name: str,
    task: str | Task | None = None,
    classes: int | None = None,
) -> Targets:
    """Targets for a task or, if none is stated, for the one that their type and shape say.

    One integer each is a class, one real number each a number to predict, a row of 0 and 1 each says which
    labels a sample has. Numbers are standardized by the training part, unless the task brings its scale.
    """
    stated = task.name if isinstance(task, Task) else task
    kind, train = target_array(y_train, f"{name}: y_train", stated)
    _, test = target_array(y_test, f"{name}: y_test", kind)
    if kind == "classification":
        return Targets(
            CLASSIFICATION, as_tensor(train), as_tensor(test), _classes(name, (train, test), classes)
        )
    outputs = train.shape[1]
    if outputs != test.shape[1]:
        raise InputError(f"{name}: y_train has {outputs} columns and y_test {test.shape[1]}")
    if classes not in (None, outputs):
        raise InputError(
            f"{name}: each sample has {outputs} targets and classes = {classes}; leave classes out"
        )
    if kind == "multilabel":
        there = [as_tensor(y.astype(np.float32)) for y in (train, test)]
        return Targets(MULTILABEL, there[0], there[1], outputs)
    scale = task if isinstance(task, Regression) else _scale(train, f"{name}: y_train")
    numbers = [scale.standardized(as_tensor(y)) for y in (train, test)]
    return Targets(scale, numbers[0], numbers[1], outputs)


def target_array(value: ArrayLike | Tensor, what: str, task: str | None = None) -> tuple[TaskName, Array]:
    """The task of some targets, stated or inferred, and the targets: labels [n] as int64, or [n, outputs]."""
    y = plain_array(value, what)
    kind = _inferred(y, what) if task is None else _known(task, what)
    if kind == "classification":
        return kind, label_array(y, what)
    if y.ndim not in (1, 2) or y.dtype.kind not in "biuf" or (y.ndim == 2 and not y.shape[1]):
        raise InputError(
            f"{what} is {y.dtype} {list(y.shape)}; targets must be a number or a row of numbers per sample"
        )
    rows = y.reshape(len(y), -1)
    if y.dtype.kind == "f" and (missing := np.flatnonzero(~np.isfinite(rows).all(1))).size:
        raise InputError(
            f"{what} is not finite (NaN or infinity) in row {missing[0] + 1}; fill it or drop the sample"
        )
    if kind == "multilabel" and not _zero_one(rows):
        raise InputError(f"{what} holds other numbers than 0 and 1, which say whether a label is there")
    return kind, rows


def _inferred(y: Array, what: str) -> TaskName:
    """The task that targets are for, by their type and shape; those that may be for several are refused."""
    if y.ndim == 1 and y.dtype.kind == "f":
        # The minimum and maximum of an array with a NaN are NaN, which is reported later.
        if np.isfinite([y.min(initial=0), y.max(initial=0)]).all() and (y == np.rint(y)).all():
            raise InputError(
                f"{what} holds whole numbers as {y.dtype}: make them integers if they are classes, "
                "or state task = 'regression'"
            )
        return "regression"
    if y.ndim != 2 or y.dtype.kind not in "biuf":
        return "classification"
    if not _zero_one(y):
        raise InputError(
            f"{what} is {y.dtype} {list(y.shape)} and not of 0 and 1 alone, which would say which labels a "
            "sample has: state task = 'regression' if these are numbers to predict"
        )
    if (y.sum(1) == 1).all():
        raise InputError(
            f"{what} has a single 1 in each row: pass one integer per sample (its argmax) if they are "
            "classes, or state task = 'multilabel'"
        )
    return "multilabel"


def _known(task: str, what: str) -> TaskName:
    if task in get_args(TaskName):
        return cast(TaskName, task)
    raise InputError(f"{what}: there is no task {task!r}; {nearest(task, get_args(TaskName))}")


def _zero_one(y: Array) -> bool:
    return bool(((y == 0) | (y == 1)).all())


def _scale(train: Array, what: str) -> Regression:
    mean, std = train.mean(0, dtype=np.float64), train.std(0, dtype=np.float64)
    if (constant := np.flatnonzero(std == 0)).size:
        raise InputError(
            f"{what}: every sample has the target {train[0, constant[0]]:g}; there must be two or more"
        )
    return Regression(tuple(mean.tolist()), tuple(std.tolist()))


def _classes(name: str, labels: Sequence[Array], classes: int | None) -> int:
    low, high = min(int(y.min()) for y in labels), max(int(y.max()) for y in labels)
    if low < 0:
        raise InputError(f"{name}: found label {low}; labels must be integers from 0")
    if classes is not None:
        if high >= classes:
            raise InputError(f"{name}: found label {high}; {classes} classes have labels 0..{classes - 1}")
        return classes
    # Sorting, not counting: a label of 10^12 must give this error, not run out of memory.
    present = np.unique(np.concatenate([np.unique(y) for y in labels]))
    if len(present) != high + 1:
        missing = int(np.flatnonzero(np.append(present, -1) != np.arange(len(present) + 1))[0])
        raise InputError(
            f"{name}: labels go up to {high} but {missing} never occurs; number them 0..C-1, "
            "or set classes if some are absent on purpose"
        )
    if high == 0:
        raise InputError(f"{name}: every label is 0; there must be at least two classes")
    return high + 1
