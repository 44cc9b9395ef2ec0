"""Data sets from arrays, tensors and torch Datasets, and the task that their targets are for."""

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from eunoe.core.fields import describe_input
from eunoe.core.tasks import CLASSIFICATION, LANGUAGE_MODEL, MULTILABEL, Regression, Task, TaskName
from eunoe.data import checks
from eunoe.data.checks import Array, InputLike, Integers
from eunoe.data.samples import DataSet, Samples
from eunoe.errors import InputError, nearest
from eunoe.text import printable

# Enough samples for the mean and std of a channel to three digits, few enough to be fast.
_MEASURED_SAMPLES = 4096


def from_arrays(
    x_train: InputLike,
    y_train: ArrayLike | Tensor,
    x_test: InputLike,
    y_test: ArrayLike | Tensor,
    *,
    writer_train: ArrayLike | Tensor | None = None,
    writer_test: ArrayLike | Tensor | None = None,
    name: str = "own",
    task: str | Task | None = None,
    classes: int | None = None,
    class_names: Sequence[str] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> DataSet:
    """Build a data set from arrays or tensors, which are not copied.

    Inputs keep their type. Images as bytes are [n, H, W] or [n, H, W, channels]. Inputs of several fields are
    a dict or tuple of arrays, a field of varying length is a list of arrays or a `Ragged`. Labels are
    integers 0..classes-1, rows of 0 and 1 (multilabel) or real numbers (regression); set `task` if their type
    and shape are ambiguous. `writer_*` is the client of each sample (integers or strings). Without `classes`,
    every class up to the largest label must occur. Without `mean` and `std`, those of bytes are measured and
    other types are not normalized.
    """
    train = checks.check_inputs(x_train, f"{name}: x_train")
    test = checks.check_inputs(x_test, f"{name}: x_test")
    if (form := describe_input(train)) != (other := describe_input(test)):
        raise InputError(
            f"{name}: x_train is {form} but x_test is {other}; all samples must have the same type and shape"
        )
    task, y, outputs = _make_targets(y_train, y_test, name, task, classes)
    checks.check_lengths(train, y[0], f"{name}: x_train", "y_train")
    checks.check_lengths(test, y[1], f"{name}: x_test", "y_test")
    if class_names is not None and len(class_names) != outputs:
        raise InputError(f"{name}: {len(class_names)} class names for {outputs} classes")
    if (mean is None) != (std is None):
        raise InputError(f"{name}: pass both mean and std, or neither")
    if mean is None and isinstance(train, Tensor) and train.dtype == torch.uint8:
        mean, std = measure_bytes(train.numpy())
    owners_train, owners_test, names = _check_writers(name, writer_train, writer_test, len(train), len(test))
    return DataSet(
        name=name,
        train=Samples(train, y[0]),
        test=Samples(test, y[1]),
        classes=outputs,
        task=task,
        writers_train=owners_train,
        writers_test=owners_test,
        writer_names=names,
        class_names=None if class_names is None else tuple(printable(str(label)) for label in class_names),
        mean=None if mean is None else tuple(float(value) for value in mean),
        std=None if std is None else tuple(float(value) for value in std),
    )


def from_rows(x: Any, y: Array, test: Array, writers: Array | None = None, **options: Any) -> DataSet:
    """Build a data set from samples of which `test` marks the test part; options as in `from_arrays`."""
    train = ~test
    if writers is not None:
        options |= {"writer_train": writers[train], "writer_test": writers[test]}
    return from_arrays(x[train], y[train], x[test], y[test], **options)


def stack_dataset(part: "torch.utils.data.Dataset[Any]", what: str) -> tuple[InputLike, Array]:
    """Return inputs (tensors, arrays, images, or fields of them) and labels of a torch Dataset of pairs."""
    if isinstance(part, torch.utils.data.TensorDataset) and len(part.tensors) == 2:
        return checks.as_array(part.tensors[0], what), checks.as_array(part.tensors[1], what)
    try:
        pairs = [part[i] for i in range(len(part))]  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{what} must be a torch Dataset with a length and numbered samples") from None
    if not pairs or any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
        raise InputError(f"{what} must consist of (input, label) pairs, at least one")
    try:
        # A label of one number is a scalar, whatever it is wrapped in.
        labels = [np.asarray(y) for _, y in pairs]
        labels = [y.reshape(()) if y.size == 1 else y for y in labels]
        return _stack([x for x, _ in pairs], what), np.asarray(labels)
    except (ValueError, TypeError) as error:
        raise InputError(f"{what} cannot be stacked into one array: {error}") from None


def _stack(inputs: list[Any], what: str) -> InputLike:
    """Stack single inputs into one array or, if they are tuples or dicts, into one per field."""
    first = inputs[0]
    if isinstance(first, Mapping):
        return {key: _stack([x[key] for x in inputs], f"{what}: {key}") for key in first}
    if isinstance(first, tuple | list) and first and isinstance(first[0], Tensor | np.ndarray):
        fields = zip(*inputs, strict=True)
        return tuple(_stack(list(field), f"{what}: field {i}") for i, field in enumerate(fields))
    arrays = [checks.as_array(x, what) for x in inputs]
    if len({array.shape[:1] for array in arrays}) > 1:
        return checks.as_ragged(arrays, what)
    return np.stack(arrays)


def measure_bytes(x: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std per channel of bytes scaled to [0, 1], from evenly spaced samples."""
    subset = x[:: -(-len(x) // _MEASURED_SAMPLES)]
    scaled = subset.reshape(-1, x.shape[-1] if x.ndim == 4 else 1) / np.float32(255)
    return mean_and_std(scaled, digits=4)


def mean_and_std(values: Array, digits: int | None = None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std of each column; the std of a constant column is 1, to avoid division by zero."""
    mean, std = values.mean(0, dtype=np.float64), values.std(0, dtype=np.float64)
    if digits is not None:
        mean, std = mean.round(digits), std.round(digits)
    std[std == 0] = 1.0
    return tuple(mean.tolist()), tuple(std.tolist())


def number_ids(*parts: Array) -> list[Integers]:
    """Map ids of any kind to 0, 1, ... in sorted order, consistently across parts."""
    _, numbers = np.unique(np.concatenate(parts), return_inverse=True)
    return np.split(numbers.astype(np.int64), np.cumsum([len(part) for part in parts])[:-1])


def _check_writers(
    name: str, train: ArrayLike | Tensor | None, test: ArrayLike | Tensor | None, n_train: int, n_test: int
) -> tuple[Tensor | None, Tensor | None, tuple[str, ...] | None]:
    """Return the writers of both parts as numbers, and their names if they are strings."""
    parts = (("train", train, n_train), ("test", test, n_test))
    ids = {key: checks.check_ids(ids, f"{name}: writer_{key}", n) for key, ids, n in parts if ids is not None}
    are_numbers, names = {array.dtype.kind in "iu" for array in ids.values()}, None
    if len(are_numbers) > 1:
        raise InputError(f"{name}: writer_train and writer_test must both be integers or both be strings")
    if are_numbers == {False}:
        names = tuple(str(writer) for writer in np.unique(np.concatenate(list(ids.values()))))
        ids = dict(zip(ids, number_ids(*ids.values()), strict=True))
    tensors = {part: checks.as_tensor(array.astype(np.int64, copy=False)) for part, array in ids.items()}
    return tensors.get("train"), tensors.get("test"), names


def _make_targets(
    y_train: ArrayLike | Tensor,
    y_test: ArrayLike | Tensor,
    name: str,
    task: str | Task | None,
    classes: int | None,
) -> tuple[Task, list[Tensor], int]:
    """Return the task, the targets of both parts (of regression standardized), and the number of outputs."""
    stated = task.name if isinstance(task, Task) else task
    kind, train = check_targets(y_train, f"{name}: y_train", stated)
    _, test = check_targets(y_test, f"{name}: y_test", kind)
    if kind == "classification":
        outputs = _count_classes(name, (train, test), classes)
        return CLASSIFICATION, [checks.as_tensor(train), checks.as_tensor(test)], outputs
    if kind == "language_model":
        most = 1 + max(int(y.max()) for y in (train, test))
        if classes is not None and most > classes:
            raise InputError(f"{name}: token {most - 1} is too large; {classes} tokens are 0..{classes - 1}")
        return LANGUAGE_MODEL, [checks.as_tensor(y) for y in (train, test)], classes or most
    outputs = train.shape[1]
    if outputs != test.shape[1]:
        raise InputError(f"{name}: y_train has {outputs} columns but y_test has {test.shape[1]}")
    if classes not in (None, outputs):
        raise InputError(f"{name}: classes = {classes}, but samples have {outputs} targets; omit classes")
    if kind == "multilabel":
        return MULTILABEL, [checks.as_tensor(y.astype(np.float32)) for y in (train, test)], outputs
    if not isinstance(task, Regression):
        if (constant := np.flatnonzero(train.std(0, dtype=np.float64) == 0)).size:
            value = train[0, constant[0]]
            raise InputError(f"{name}: y_train: all targets are {value:g}; at least two must differ")
        task = Regression(*mean_and_std(train))
    return task, [task.standardize(checks.as_tensor(y)) for y in (train, test)], outputs


def check_targets(value: ArrayLike | Tensor, what: str, task: str | None = None) -> tuple[TaskName, Array]:
    """Return the task, stated or inferred, and the targets: labels or tokens as int64, or [n, outputs]."""
    y = checks.as_array(value, what)
    if y.ndim and not len(y):
        raise InputError(f"{what} is empty")
    if task is not None and task not in get_args(TaskName):
        raise InputError(f"{what}: unknown task {task!r}; {nearest(task, get_args(TaskName))}")
    kind = _infer_task(y, what) if task is None else cast(TaskName, task)
    if kind == "classification":
        return kind, checks.check_labels(y, what)
    if kind == "language_model":
        if y.ndim != 2 or y.dtype.kind not in "iu" or y.min(initial=0) < 0:
            raise InputError(f"{what} is {y.dtype} {list(y.shape)}; it must be token ids [samples, length]")
        return kind, y.astype(np.int64, copy=False)
    if y.ndim not in (1, 2) or y.dtype.kind not in "biuf" or (y.ndim == 2 and not y.shape[1]):
        raise InputError(f"{what} is {y.dtype} {list(y.shape)}; targets are one or more numbers per sample")
    rows = y.reshape(len(y), -1)
    if y.dtype.kind == "f" and (missing := np.flatnonzero(~np.isfinite(rows).all(1))).size:
        raise InputError(f"{what} is NaN or infinite in row {missing[0] + 1}; fill it or drop the sample")
    if kind == "multilabel" and not _is_zero_one(rows):
        raise InputError(f"{what} has values other than 0 and 1; multilabel targets must be 0 or 1")
    return kind, rows


def _infer_task(y: Array, what: str) -> TaskName:
    """Infer the task from type and shape; raise InputError if several are possible."""
    if y.ndim == 1 and y.dtype.kind == "f":
        # The minimum and maximum of an array with a NaN are NaN, which is reported later.
        if np.isfinite([y.min(initial=0), y.max(initial=0)]).all() and (y == np.rint(y)).all():
            raise InputError(
                f"{what} has whole numbers as {y.dtype}: use integers for classes, or set task = 'regression'"
            )
        return "regression"
    if y.ndim != 2 or y.dtype.kind not in "biuf":
        return "classification"
    if not _is_zero_one(y):
        raise InputError(f"{what} is not multilabel (0 and 1): set task = 'regression' to predict numbers")
    if (y.sum(1) == 1).all():
        raise InputError(f"{what} has one 1 per row: pass its argmax for classes, or set task = 'multilabel'")
    return "multilabel"


def _is_zero_one(y: Array) -> bool:
    return bool(((y == 0) | (y == 1)).all())


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
            f"{name}: labels go up to {high}, but {missing} never occurs; number them 0..C-1 or set classes"
        )
    if high == 0:
        raise InputError(f"{name}: every label is 0; there must be at least two classes")
    return high + 1
