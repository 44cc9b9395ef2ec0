"""Which task targets are for, how they are stored, and which are refused."""

from typing import Any

import numpy as np
import pytest
import torch

from eunoe import Federation
from eunoe.core.tasks import Regression
from eunoe.data.arrays import from_arrays
from eunoe.errors import InputError

X = np.zeros((6, 2), np.float32)
REAL = np.array([0.5, 1.5, 2.5, 0.5, 1.5, 2.5])
LABELS = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [1, 1], [0, 1]])


def test_the_type_and_shape_of_targets_say_the_task() -> None:
    classes = from_arrays(X, [0, 1, 2, 0, 1, 2], X, [0, 1, 2, 0, 1, 2])
    assert (classes.task.name, classes.classes, classes.train.y.dtype) == ("classification", 3, torch.int64)
    labels = from_arrays(X, LABELS, X, LABELS.astype(bool))
    assert (labels.task.name, labels.classes) == ("multilabel", 2)
    assert labels.train.y.tolist() == labels.test.y.tolist() == LABELS.tolist()
    numbers = from_arrays(X, REAL, X, REAL)
    assert (numbers.task.name, numbers.classes) == ("regression", 1)
    assert repr(numbers).endswith("1 targets)")


def test_numbers_are_standardized_by_the_training_part() -> None:
    data = from_arrays(X, REAL, X, REAL + 1)
    std = float(np.std(REAL))
    assert data.task == Regression((1.5,), (std,))
    assert data.train.y.shape == (6, 1)
    assert data.train.y[:, 0].tolist() == pytest.approx(((REAL - 1.5) / std).tolist())
    assert data.test.y[:, 0].tolist() == pytest.approx(((REAL - 0.5) / std).tolist())
    # A federation's clients have the scale of its server.
    own = from_arrays(X, REAL, X, REAL, task=Regression((0.0,), (0.5,)))
    assert own.train.y[:, 0].tolist() == (2 * REAL).tolist()


def test_a_stated_task_counts() -> None:
    whole = np.arange(6)
    assert from_arrays(X, whole, X, whole, task="regression").task.name == "regression"
    one_hot = np.eye(3)[whole % 3]
    assert from_arrays(X, one_hot, X, one_hot, task="multilabel").classes == 3
    two = np.stack([REAL, 2 * REAL], 1)
    assert from_arrays(X, two, X, two, task="regression").classes == 2


@pytest.mark.parametrize(
    ("y", "options", "says"),
    [
        (
            np.arange(6.0),
            {},
            "y_train has whole numbers as float64: use integers for classes",
        ),
        (np.where(REAL > 2, np.nan, REAL), {}, "y_train is NaN or infinite in row 3; fill it or drop"),
        (
            np.stack([REAL, REAL], 1),
            {},
            r"y_train is not multilabel .*task = 'regression'",
        ),
        (np.eye(3)[np.arange(6) % 3], {}, "one 1 per row: pass its argmax for classes"),
        (LABELS * 2, {"task": "multilabel"}, "y_train has values other than 0 and 1"),
        (np.full(6, 1.5), {}, "all targets are 1.5; at least two must differ"),
        (
            REAL,
            {"task": "classification"},
            r"y_train is float64 \[6\]; labels must be one integer per sample",
        ),
        (REAL, {"task": "regresion"}, "unknown task 'regresion'; did you mean 'regression'"),
        (LABELS, {"classes": 3}, "classes = 3, but samples have 2 targets; omit classes"),
        (
            np.zeros((6, 2, 2)),
            {"task": "regression"},
            r"float64 \[6, 2, 2\]; targets are one or more numbers per sample",
        ),
        (np.array(["a"] * 6), {"task": "regression"}, "targets are one or more numbers per sample"),
        (LABELS, {"class_names": ["a"]}, "1 class names for 2 classes"),
    ],
)
def test_targets_that_are_refused_in_one_line(y: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as raised:
        from_arrays(X, y, X, y, **options)
    assert "\n" not in str(raised.value)


def test_parts_must_have_as_many_columns() -> None:
    with pytest.raises(InputError, match="y_train has 2 columns but y_test has 1"):
        from_arrays(X, LABELS, X, LABELS[:, :1])


def test_a_federation_of_arrays_or_of_a_torch_dataset() -> None:
    federation = Federation.from_arrays(X, REAL, X, REAL, partition="iid", clients=2, validation=0)
    assert federation.task.name == "regression"
    assert federation.all_counts().tolist() == [[3], [3]]
    pairs = [(torch.zeros(2), torch.tensor(label)) for label in LABELS]
    several = Federation.from_torch(pairs, pairs, partition="iid", clients=2, validation=0)  # type: ignore[arg-type]
    assert several.task.name == "multilabel"
    assert several.all_counts().sum(0).tolist() == LABELS.sum(0).tolist()
    assert sum(several.counts(client) for client in range(2)).tolist() == LABELS.sum(0).tolist()  # type: ignore[union-attr]
    with pytest.raises(InputError, match=r"this partition divides by class.* use partition 'natural'"):
        Federation.from_arrays(X, REAL, X, REAL, clients=2)
    with pytest.raises(InputError, match=r"y is text .*; labels must be one integer"):
        Federation.from_torch([(torch.zeros(2), "cat")] * 2, clients=2)  # type: ignore[arg-type]
