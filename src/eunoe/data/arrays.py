"""Data sets from arrays, tensors and torch Datasets, with the checks that all sources share."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from eunoe.core.fields import in_words
from eunoe.core.tasks import Task
from eunoe.data.checks import Array, Labels, as_tensor, id_array, one_label_each, plain_array
from eunoe.data.field_arrays import Given, input_of, ragged_of, stored
from eunoe.data.samples import DataSet, Samples
from eunoe.data.targets import target_array, targets_of
from eunoe.errors import InputError
from eunoe.text import printable

# Enough samples for two moments of a channel to three digits, few enough to be fast.
_MEASURED_SAMPLES = 4096


def from_arrays(
    x_train: Given,
    y_train: ArrayLike | Tensor,
    x_test: Given,
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
    """A data set from the user's own arrays or tensors, which are not copied.

    Inputs keep their type; images as bytes are [n, H, W] or [n, H, W, channels]. Inputs of several fields are
    a dict or tuple of arrays, a field of varying length a list of arrays or a `Ragged`. Labels are integers
    0..classes-1, rows of 0 and 1 for several labels at once, or real numbers for regression; `task` states
    which, where their type and shape leave it open. `writer_*` says which client each sample belongs to
    (integers or strings). Without `classes` every class up to the largest label must occur. Without `mean`
    and `std` those of bytes are measured and other types are left alone.
    """
    train, test = input_of(x_train, f"{name}: x_train"), input_of(x_test, f"{name}: x_test")
    x = stored(train), stored(test)
    if in_words(x[0]) != in_words(x[1]):
        raise InputError(
            f"{name}: x_train holds {in_words(x[0])} and x_test {in_words(x[1])}; "
            "samples must have one type and shape"
        )
    targets = targets_of(y_train, y_test, name, task, classes)
    one_label_each(train, targets.train, f"{name}: x_train", "y_train")
    one_label_each(test, targets.test, f"{name}: x_test", "y_test")
    classes = targets.outputs
    if class_names is not None and len(class_names) != classes:
        raise InputError(f"{name}: {len(class_names)} class names for {classes} classes; one each is needed")
    if (mean is None) != (std is None):
        raise InputError(f"{name}: pass both mean and std, or neither")
    if mean is None and isinstance(train, np.ndarray) and train.dtype == np.uint8:
        mean, std = moments(train)
    writers = _writers(name, writer_train, writer_test, len(train), len(test))
    return DataSet(
        name=name,
        train=Samples(x[0], targets.train),
        test=Samples(x[1], targets.test),
        classes=classes,
        task=targets.task,
        writers_train=writers[0],
        writers_test=writers[1],
        writer_names=writers[2],
        class_names=None if class_names is None else tuple(printable(str(label)) for label in class_names),
        mean=None if mean is None else tuple(float(value) for value in mean),
        std=None if std is None else tuple(float(value) for value in std),
    )


def own_data(
    x: Given,
    y: ArrayLike | Tensor,
    x_test: Given | None,
    y_test: ArrayLike | Tensor | None,
    client_ids: ArrayLike | Tensor | None,
    rng: np.random.Generator,
    share: float,
    *,
    task: str | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> DataSet:
    """The same without names of a source; without test arrays a random share of the samples is set aside."""
    if (x_test is None) != (y_test is None):
        raise InputError("test inputs and test labels go together: pass x_test and y_test, or neither")
    # Checked here under the names that the user knows the arrays by.
    inputs, (kind, labels) = input_of(x, "x"), target_array(y, "y", task)
    one_label_each(inputs, labels, "x", "y")
    ids = None if client_ids is None else id_array(client_ids, "client_ids", len(inputs))
    tested = None
    if x_test is None or y_test is None:
        rows, aside = set_aside(len(inputs), share, rng)
        x_test, y_test, tested = inputs[aside], labels[aside], None if ids is None else ids[aside]
        inputs, labels, ids = inputs[rows], labels[rows], None if ids is None else ids[rows]
    return from_arrays(
        inputs,
        labels,
        x_test,
        y_test,
        writer_train=ids,
        writer_test=tested,
        task=kind,
        mean=mean,
        std=std,
    )


def stacked(part: "torch.utils.data.Dataset[Any]", what: str) -> tuple[Given, Array]:
    """The inputs and labels of a torch Dataset of (input, label) pairs, each read once.

    Inputs may be tensors, arrays or Pillow images, or tuples or dicts of them.
    """
    if isinstance(part, torch.utils.data.TensorDataset) and len(part.tensors) == 2:
        return plain_array(part.tensors[0], what), plain_array(part.tensors[1], what)
    try:
        pairs = [part[i] for i in range(len(part))]  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{what} must be a torch Dataset with a length and numbered samples") from None
    if not pairs or any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
        raise InputError(f"{what} must hold (input, label) pairs, at least one")
    try:
        return _together([x for x, _ in pairs], what), np.asarray([_target(y) for _, y in pairs])
    except (ValueError, TypeError) as error:
        raise InputError(f"{what} does not stack into one array with labels of one form: {error}") from None


def _target(y: Any) -> Array:
    """The target of a sample; one number is one number, in whatever it is wrapped."""
    array = np.asarray(y)
    return array.reshape(()) if array.size == 1 else array


def _together(inputs: list[Any], what: str) -> Given:
    """Single inputs as one array or, if they are tuples or dicts, as one for each field."""
    first = inputs[0]
    if isinstance(first, Mapping):
        return {key: _together([x[key] for x in inputs], f"{what}: {key}") for key in first}
    if isinstance(first, tuple | list) and first and isinstance(first[0], Tensor | np.ndarray):
        return tuple(
            _together(list(each), f"{what}: field {i}") for i, each in enumerate(zip(*inputs, strict=True))
        )
    arrays = [plain_array(x, what) for x in inputs]
    if len({array.shape[:1] for array in arrays}) > 1:
        return ragged_of(arrays, what)
    return np.stack(arrays)


def set_aside(samples: int, share: float, rng: np.random.Generator) -> tuple[Labels, Labels]:
    """The rows to train on, and a random share of all rows to test on."""
    tested = round(share * samples)
    if not 0 < tested < samples:
        raise InputError(
            f"a share of {share:g} of {samples} samples sets {tested} aside; both parts need some"
        )
    rows = rng.permutation(samples)
    return np.sort(rows[tested:]), np.sort(rows[:tested])


def moments(x: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel of bytes scaled to [0, 1], from evenly spaced samples."""
    some = x[:: -(-len(x) // _MEASURED_SAMPLES)]
    scaled = some.reshape(-1, x.shape[-1] if x.ndim == 4 else 1) / np.float32(255)
    mean, std = scaled.mean(0, dtype=np.float64).round(4), scaled.std(0, dtype=np.float64).round(4)
    std[std == 0] = 1.0  # a channel that never varies must not become a division by zero
    return tuple(mean.tolist()), tuple(std.tolist())


def number_ids(*parts: Array) -> list[Labels]:
    """Map ids of any kind to 0, 1, ... in sorted order, consistently across parts."""
    _, numbers = np.unique(np.concatenate(parts), return_inverse=True)
    return np.split(numbers.astype(np.int64), np.cumsum([len(part) for part in parts])[:-1])


def _writers(
    name: str, train: ArrayLike | Tensor | None, test: ArrayLike | Tensor | None, n_train: int, n_test: int
) -> tuple[Tensor | None, Tensor | None, tuple[str, ...] | None]:
    given: dict[str, Array] = {}
    for part, value, length in (("train", train, n_train), ("test", test, n_test)):
        if value is None:
            continue
        given[part] = id_array(value, f"{name}: writer_{part}", length)
    if len({ids.dtype.kind in "iu" for ids in given.values()}) > 1:
        raise InputError(f"{name}: writer_train and writer_test must both be integers or both be strings")
    names = None
    if any(ids.dtype.kind not in "iu" for ids in given.values()):
        names = tuple(str(one) for one in np.unique(np.concatenate(list(given.values()))))
        given = dict(zip(given, number_ids(*given.values()), strict=True))
    tensors = {part: as_tensor(ids.astype(np.int64, copy=False)) for part, ids in given.items()}
    return tensors.get("train"), tensors.get("test"), names
