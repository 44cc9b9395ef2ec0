"""The targets of samples: which task they are for, and how they are stored."""

from collections.abc import Sequence
from typing import NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from eunoe.core.tasks import CLASSIFICATION, MULTILABEL, Regression, Task, TaskName
from eunoe.data.checks import Array, as_array, as_tensor, check_labels
from eunoe.errors import InputError, nearest


class Targets(NamedTuple):
    """The targets of both parts, their task, and the number of outputs of a model for it."""

    task: Task
    train: Tensor
    test: Tensor
    outputs: int


def make_targets(
    y_train: ArrayLike | Tensor,
    y_test: ArrayLike | Tensor,
    name: str,
    task: str | Task | None = None,
    classes: int | None = None,
) -> Targets:
    """Convert targets to tensors for a task, which is inferred from their type and shape if it is None.

    One integer per sample is a class (classification), a row of 0 and 1 is multilabel, real numbers are
    regression. Regression targets are standardized by the training part, unless the task has a scale.
    """
    stated = task.name if isinstance(task, Task) else task
    kind, train = check_targets(y_train, f"{name}: y_train", stated)
    _, test = check_targets(y_test, f"{name}: y_test", kind)
    if kind == "classification":
        outputs = _count_classes(name, (train, test), classes)
        return Targets(CLASSIFICATION, as_tensor(train), as_tensor(test), outputs)
    outputs = train.shape[1]
    if outputs != test.shape[1]:
        raise InputError(f"{name}: y_train has {outputs} columns but y_test has {test.shape[1]}")
    if classes not in (None, outputs):
        raise InputError(f"{name}: classes = {classes}, but samples have {outputs} targets; omit classes")
    if kind == "multilabel":
        labels = [as_tensor(y.astype(np.float32)) for y in (train, test)]
        return Targets(MULTILABEL, labels[0], labels[1], outputs)
    scale = task if isinstance(task, Regression) else _measure_scale(train, f"{name}: y_train")
    numbers = [scale.standardize(as_tensor(y)) for y in (train, test)]
    return Targets(scale, numbers[0], numbers[1], outputs)


def check_targets(value: ArrayLike | Tensor, what: str, task: str | None = None) -> tuple[TaskName, Array]:
    """Return the task, stated or inferred, and the targets: labels [n] as int64, or [n, outputs]."""
    y = as_array(value, what)
    if task is not None and task not in get_args(TaskName):
        raise InputError(f"{what}: unknown task {task!r}; {nearest(task, get_args(TaskName))}")
    kind = _infer_task(y, what) if task is None else cast(TaskName, task)
    if kind == "classification":
        return kind, check_labels(y, what)
    if y.ndim not in (1, 2) or y.dtype.kind not in "biuf" or (y.ndim == 2 and not y.shape[1]):
        raise InputError(
            f"{what} is {y.dtype} {list(y.shape)}; targets must be a number or a row of numbers per sample"
        )
    rows = y.reshape(len(y), -1)
    if y.dtype.kind == "f" and (missing := np.flatnonzero(~np.isfinite(rows).all(1))).size:
        raise InputError(
            f"{what} is not finite (NaN or infinity) in row {missing[0] + 1}; fill it or drop the sample"
        )
    if kind == "multilabel" and not _is_zero_one(rows):
        raise InputError(f"{what} has values other than 0 and 1; multilabel targets must be 0 or 1")
    return kind, rows


def _infer_task(y: Array, what: str) -> TaskName:
    """Infer the task from type and shape; raise InputError if several are possible."""
    if y.ndim == 1 and y.dtype.kind == "f":
        # The minimum and maximum of an array with a NaN are NaN, which is reported later.
        if np.isfinite([y.min(initial=0), y.max(initial=0)]).all() and (y == np.rint(y)).all():
            raise InputError(
                f"{what} has whole numbers as {y.dtype}: convert them to integers if they are classes, "
                "or set task = 'regression'"
            )
        return "regression"
    if y.ndim != 2 or y.dtype.kind not in "biuf":
        return "classification"
    if not _is_zero_one(y):
        raise InputError(
            f"{what} is {y.dtype} {list(y.shape)} with values other than 0 and 1, so it is not multilabel: "
            "set task = 'regression' if these are numbers to predict"
        )
    if (y.sum(1) == 1).all():
        raise InputError(
            f"{what} has a single 1 in each row: pass one integer per sample (its argmax) if they are "
            "classes, or set task = 'multilabel'"
        )
    return "multilabel"


def _is_zero_one(y: Array) -> bool:
    return bool(((y == 0) | (y == 1)).all())


def _measure_scale(train: Array, what: str) -> Regression:
    mean, std = train.mean(0, dtype=np.float64), train.std(0, dtype=np.float64)
    if (constant := np.flatnonzero(std == 0)).size:
        raise InputError(f"{what}: all targets are {train[0, constant[0]]:g}; at least two must differ")
    return Regression(tuple(mean.tolist()), tuple(std.tolist()))


def _count_classes(name: str, labels: Sequence[Array], classes: int | None) -> int:
    low, high = min(int(y.min()) for y in labels), max(int(y.max()) for y in labels)
    if low < 0:
        raise InputError(f"{name}: label {low} is negative; labels must be integers from 0")
    if classes is not None:
        if high >= classes:
            raise InputError(f"{name}: label {high} is too large; {classes} classes are 0..{classes - 1}")
        return classes
    # Sort instead of counting: a label of 10^12 must raise this error, not exhaust the memory.
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
