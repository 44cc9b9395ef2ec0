"""The built-in data sets of other tasks."""

import numpy as np

from eunoe.data.builtin import digits
from eunoe.data.builtin_tasks import diabetes, digit_attributes
from eunoe.data.catalog import entry


def test_attributes_follow_from_the_digit() -> None:
    data, plain = digit_attributes(), digits()
    assert data.class_names == ("even", "prime", "above four", "has a loop")
    assert data.writer_names == tuple(f"digit {digit}" for digit in range(10))
    assert data.writers_train is not None
    assert data.writers_train.tolist() == plain.train.y.tolist()
    for digit, expected in ((0, [1, 0, 0, 1]), (2, [1, 1, 0, 0]), (7, [0, 1, 1, 0]), (1, [0, 0, 0, 0])):
        rows = np.unique(data.train.y[plain.train.y == digit].numpy(), axis=0)
        assert rows.tolist() == [expected]


def test_patients_by_age() -> None:
    data = diabetes()
    assert (len(data.train), len(data.test), data.task.name) == (356, 86, "regression")
    assert data.writer_names == ("30 to 39", "40 to 49", "50 to 59", "60 and over", "under 30")
    assert data.train.y.mean().abs() < 1e-6
    # The first patient is 59 years old and has a progression of 151.
    assert data.train.tensor[0, 0] == 59
    assert data.writers_train is not None
    assert data.writers_train[0] == 2
    assert float(data.task.in_units(data.train.y)[0, 0]) == 151.0  # type: ignore[attr-defined]


def test_they_are_in_the_catalog() -> None:
    found = entry("diabetes")
    assert (found.train, found.test, found.classes, found.clients, found.source) == (
        356,
        86,
        1,
        5,
        "scikit-learn",
    )
