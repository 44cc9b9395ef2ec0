"""Built-in data sets of other tasks than classification, made of what comes with scikit-learn."""

import numpy as np

from eunoe.data.arrays import from_arrays
from eunoe.data.builtin import digits
from eunoe.data.samples import DataSet

# What holds of each digit; a loop is a closed line in its printed form.
ATTRIBUTES = {
    "even": (0, 2, 4, 6, 8),
    "prime": (2, 3, 5, 7),
    "above four": (5, 6, 7, 8, 9),
    "has a loop": (0, 6, 8, 9),
}


def digit_attributes() -> DataSet:
    """The images of `digits` with four labels each: even, prime, above four, has a loop.

    A client is a digit (partition 'natural'), so that each has all or none of a label.
    """
    data = digits()
    holds = np.array([[digit in those for those in ATTRIBUTES.values()] for digit in range(10)], np.float32)
    train, test = data.train.y.numpy(), data.test.y.numpy()
    return from_arrays(
        data.train.tensor,
        holds[train],
        data.test.tensor,
        holds[test],
        writer_train=[f"digit {digit}" for digit in train],
        writer_test=[f"digit {digit}" for digit in test],
        name="digit_attributes",
        task="multilabel",
        class_names=tuple(ATTRIBUTES),
    )


def diabetes() -> DataSet:
    """Diabetes: ten measurements of 442 patients, and how far the disease has gone a year later.

    A client is ten years of age (partition 'natural'): under 30, 30 to 39, ..., 60 and over. The test part is
    every fifth patient of each, in file order.
    """
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, scaled=False)
    decade = np.clip(x[:, 0] // 10, 2, 6).astype(np.int64)
    test = np.zeros(len(y), bool)
    for one in np.unique(decade):
        test[np.flatnonzero(decade == one)[4::5]] = True
    named = {2: "under 30", **{one: f"{one}0 to {one}9" for one in (3, 4, 5)}, 6: "60 and over"}
    ages = np.array([named[one] for one in decade.tolist()])
    x = x.astype(np.float32)
    return from_arrays(
        x[~test],
        y[~test],
        x[test],
        y[test],
        writer_train=ages[~test],
        writer_test=ages[test],
        name="diabetes",
        task="regression",
        class_names=("progression",),
        mean=x[~test].mean(0, dtype=np.float64).tolist(),
        std=x[~test].std(0, dtype=np.float64).tolist(),
    )
