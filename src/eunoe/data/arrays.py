"""Data sets from arrays, tensors and torch Datasets, with the checks that all sources share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eunoe.data.samples import DataSet, Samples
from eunoe.errors import InputError

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Labels = NDArray[np.int64]

# Types that torch computes with; uint16 and other unsigned types have hardly any operations.
_INPUT_TYPES = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"}
# Enough samples for two moments of a channel to three digits, few enough to be fast.
_MEASURED_SAMPLES = 4096


def from_arrays(
    x_train: ArrayLike | Tensor,
    y_train: ArrayLike | Tensor,
    x_test: ArrayLike | Tensor,
    y_test: ArrayLike | Tensor,
    *,
    writer_train: ArrayLike | Tensor | None = None,
    writer_test: ArrayLike | Tensor | None = None,
    name: str = "own",
    classes: int | None = None,
    class_names: Sequence[str] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> DataSet:
    """A data set from the user's own arrays or tensors, which are not copied.

    Inputs keep their type; images as bytes are [n, H, W] or [n, H, W, channels]. Labels are integers
    0..classes-1. `writer_*` says which client each sample belongs to (integers or strings). Without
    `classes` every class up to the largest label must occur. Without `mean` and `std` those of bytes
    are measured and other types are left alone.
    """
    train, test = input_array(x_train, f"{name}: x_train"), input_array(x_test, f"{name}: x_test")
    if train.shape[1:] != test.shape[1:] or train.dtype.name != test.dtype.name:
        raise InputError(
            f"{name}: x_train holds {train.dtype} {list(train.shape[1:])} and x_test {test.dtype} "
            f"{list(test.shape[1:])}; samples must have one type and shape"
        )
    labels = [label_array(y, f"{name}: {key}") for y, key in ((y_train, "y_train"), (y_test, "y_test"))]
    one_label_each(train, labels[0], f"{name}: x_train", "y_train")
    one_label_each(test, labels[1], f"{name}: x_test", "y_test")
    classes = _classes(name, labels, classes)
    if class_names is not None and len(class_names) != classes:
        raise InputError(f"{name}: {len(class_names)} class names for {classes} classes; one each is needed")
    if (mean is None) != (std is None):
        raise InputError(f"{name}: pass both mean and std, or neither")
    if mean is None and train.dtype == np.uint8:
        mean, std = moments(train)
    writers = _writers(name, writer_train, writer_test, len(train), len(test))
    return DataSet(
        name=name,
        train=Samples(_tensor(train), _tensor(labels[0])),
        test=Samples(_tensor(test), _tensor(labels[1])),
        classes=classes,
        writers_train=writers[0],
        writers_test=writers[1],
        class_names=None if class_names is None else tuple(str(label) for label in class_names),
        mean=None if mean is None else tuple(float(value) for value in mean),
        std=None if std is None else tuple(float(value) for value in std),
    )


def stacked(part: "torch.utils.data.Dataset[Any]", what: str) -> tuple[Array, Array]:
    """The inputs and labels of a torch Dataset of (input, label) pairs, each read once.

    Inputs may be tensors, arrays or Pillow images.
    """
    if isinstance(part, torch.utils.data.TensorDataset) and len(part.tensors) == 2:
        return _array(part.tensors[0], what), _array(part.tensors[1], what)
    try:
        pairs = [part[i] for i in range(len(part))]  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{what} must be a torch Dataset with a length and numbered samples") from None
    if not pairs or any(not isinstance(pair, tuple | list) or len(pair) != 2 for pair in pairs):
        raise InputError(f"{what} must hold (input, label) pairs, at least one")
    try:
        return np.stack([_array(x, what) for x, _ in pairs]), np.asarray([int(y) for _, y in pairs])
    except (ValueError, TypeError) as error:
        raise InputError(f"{what} does not stack into one array with integer labels: {error}") from None


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


def input_array(value: ArrayLike | Tensor, what: str) -> Array:
    """Inputs [samples, ...] as an array of numbers; `what` names them in errors."""
    x = _array(value, what)
    if x.dtype.kind in "USO":
        raise InputError(f"{what} holds {_held(x)}; inputs must be numbers")
    if x.dtype.name not in _INPUT_TYPES:
        raise InputError(f"{what} has type {x.dtype}; it must be one of {', '.join(sorted(_INPUT_TYPES))}")
    if x.ndim < 2 or x.size == 0:
        raise InputError(f"{what} has shape {list(x.shape)}; it must be [samples, ...] and not empty")
    if x.dtype == np.uint8 and x.ndim == 4 and x.shape[-1] > 4 and x.shape[1] <= 4:
        raise InputError(
            f"{what} has shape {list(x.shape)}; images must have their channels last, [n, H, W, C]"
        )
    # The minimum and maximum of an array with a NaN are NaN.
    if x.dtype.kind == "f" and not np.isfinite([x.min(), x.max()]).all():
        raise InputError(f"{what} holds values that are not finite (NaN or infinity); fill or drop them")
    return x


def label_array(value: ArrayLike | Tensor, what: str) -> Labels:
    """Labels [samples] as int64."""
    y = _array(value, what)
    if y.dtype.kind in "USO":
        raise InputError(f"{what} holds {_held(y)}; labels must be integers 0..C-1, one per sample")
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise InputError(f"{what} is {y.dtype} {list(y.shape)}; labels must be one integer per sample")
    return y.astype(np.int64, copy=False)


def id_array(value: ArrayLike | Tensor, what: str, samples: int) -> Array:
    """Client ids [samples], integers or strings."""
    ids = _array(value, what)
    if ids.shape != (samples,) or ids.dtype.kind not in "iuUS":
        raise InputError(
            f"{what} is {ids.dtype} {list(ids.shape)}; it must be one integer or string "
            f"for each of the {samples} samples"
        )
    return ids


def one_label_each(x: Array, y: Labels, inputs: str, labels: str) -> None:
    """Refuse inputs and labels of unequal length."""
    if len(x) != len(y):
        raise InputError(f"{inputs} has {len(x)} samples and {labels} {len(y)}; there must be one label each")


def _classes(name: str, labels: Sequence[Labels], classes: int | None) -> int:
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


def _writers(
    name: str, train: ArrayLike | Tensor | None, test: ArrayLike | Tensor | None, n_train: int, n_test: int
) -> tuple[Tensor | None, Tensor | None]:
    given: dict[str, Array] = {}
    for part, value, length in (("train", train, n_train), ("test", test, n_test)):
        if value is None:
            continue
        given[part] = id_array(value, f"{name}: writer_{part}", length)
    if len({ids.dtype.kind in "iu" for ids in given.values()}) > 1:
        raise InputError(f"{name}: writer_train and writer_test must both be integers or both be strings")
    if any(ids.dtype.kind not in "iu" for ids in given.values()):
        given = dict(zip(given, number_ids(*given.values()), strict=True))
    tensors = {part: _tensor(ids.astype(np.int64, copy=False)) for part, ids in given.items()}
    return tensors.get("train"), tensors.get("test")


def _array(value: Any, what: str) -> Array:
    """Convert an array, a tensor or nested lists to an array."""
    try:
        if isinstance(value, Tensor):
            return value.detach().cpu().numpy()
        array = np.asarray(value)
    except (ValueError, TypeError):
        # Lists of unequal lengths, or a type that NumPy lacks, such as bfloat16.
        unequal = isinstance(value, list | tuple)
        held = "lists of unequal lengths" if unequal else f"a {type(value).__name__} that NumPy cannot hold"
        raise InputError(f"{what} is made of {held}; all samples must have one type and shape") from None
    if array.dtype == object and array.ndim == 0:
        raise InputError(f"{what} is a {type(value).__name__}; it must be an array, a tensor or nested lists")
    return array


def _held(array: Array) -> str:
    return "Python objects" if array.dtype == object else "text"


def _tensor(array: Array) -> Tensor:
    """A tensor on the same memory; torch supports neither foreign byte orders nor read-only arrays."""
    if not array.dtype.isnative or not array.flags.writeable or any(step < 0 for step in array.strides):
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(array)
