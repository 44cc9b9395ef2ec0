"""The standard numbers of regression; their definitions are in sums.py."""

from typing import ClassVar

from eunoe.metrics.sums import SumMetric


class R2(SumMetric):
    """Share of the targets' variance that is explained, mean over outputs; below 0 worse than their mean."""

    tasks = ("regression",)
    number: ClassVar[str] = "r2"


class RMSE(R2):
    """Root of the mean squared error in the units of the data, mean over outputs."""

    number: ClassVar[str] = "rmse"


class MAE(R2):
    """Mean absolute error in the units of the data, mean over outputs."""

    number: ClassVar[str] = "mae"
