"""Statistics over seeds: mean, standard deviation, Student t intervals, and how they are formatted."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from eunoe.errors import InputError

# The confidence level of all intervals.
LEVEL = 0.95
# Shown in place of a missing number.
NONE = "–"


class Interval(NamedTuple):
    """A mean with its Student t interval; unknown numbers are NaN."""

    mean: float
    low: float
    high: float

    @property
    def positive(self) -> bool:
        """Whether the whole interval is above zero."""
        return self.low > 0

    @property
    def negative(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0

    def points(self, unit: str = " points") -> str:
        """Format in points of accuracy (hundredths), as in "+4.1 points [2.9, 5.3]"."""
        if not np.isfinite(self.mean):
            return NONE
        return f"{100 * self.mean:+.1f}{unit} [{100 * self.low:.1f}, {100 * self.high:.1f}]"

    def cell(self, digits: int) -> str:
        """Format as a cell of a table, as in "+0.041 [+0.029, +0.053]"."""
        if not np.isfinite(self.mean):
            return NONE
        return f"{self.mean:+.{digits}f} [{self.low:+.{digits}f}, {self.high:+.{digits}f}]"


UNKNOWN = Interval(math.nan, math.nan, math.nan)


def interval(center: float, error: float, freedom: float) -> Interval:
    """Return the 95% Student t interval of a mean, by its standard error and degrees of freedom."""
    reach = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    return Interval(center, center - reach, center + reach)


def student_interval(values: ArrayLike) -> Interval:
    """Return the mean of values, one per seed, and its 95% Student t interval.

    One value has no interval; where a value is not finite, nothing is known.

    Example::

        student_interval([0.01, 0.02, 0.03]).points()  # "+2.0 points [-0.5, 4.5]"
    """
    numbers = np.asarray(values, np.float64)
    if not len(numbers) or not np.isfinite(numbers).all():
        return UNKNOWN
    center = float(numbers.mean())
    if len(numbers) < 2:
        return Interval(center, math.nan, math.nan)
    return interval(center, float(numbers.std(ddof=1) / np.sqrt(len(numbers))), len(numbers) - 1)


def paired_interval(values: Sequence[float], reference: Sequence[float]) -> Interval:
    """Return the interval of the mean difference between values and reference, paired by position (seed)."""
    if len(values) != len(reference):
        raise InputError(f"{len(values)} and {len(reference)} values cannot be paired")
    if len(values) < 2:
        raise InputError("a paired interval needs at least two seeds; run more of them")
    return student_interval(np.asarray(values, np.float64) - np.asarray(reference, np.float64))


def mean(values: Sequence[float]) -> float:
    """Return the mean of the finite values; NaN if there are none."""
    finite = _finite(values)
    return float(np.mean(finite)) if finite else float("nan")


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation (n - 1) of the finite values; 0 for fewer than two."""
    finite = _finite(values)
    return float(np.std(finite, ddof=1)) if len(finite) > 1 else 0.0


def mean_std(values: Sequence[float], digits: int) -> str:
    """Format the mean and, for several values, the standard deviation."""
    finite = _finite(values)
    if not finite:
        return NONE
    spread = f" ± {deviation(finite):.{digits}f}" if len(finite) > 1 else ""
    return f"{mean(finite):.{digits}f}{spread}"


def as_points(share: float) -> str:
    """Format a difference of accuracy in points (hundredths)."""
    return f"{100 * share:.1f} points"


def is_number(text: str) -> bool:
    """Return whether a cell holds a number, with or without a deviation, or marks a missing one."""
    return text.replace("±", "").replace(NONE, "").replace("NC", "").strip(" 0123456789.,%+-e") == ""


def _finite(values: Sequence[float]) -> list[float]:
    return [float(value) for value in values if math.isfinite(value)]
