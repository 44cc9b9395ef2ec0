"""Mean and standard deviation over seeds: computed and formatted here and nowhere else."""

from collections.abc import Sequence

import numpy as np

# What stands where there is no number.
NONE = "–"


def known(values: Sequence[float]) -> list[float]:
    """The values that are finite numbers."""
    return [float(value) for value in values if np.isfinite(value)]


def mean(values: Sequence[float]) -> float:
    """The mean of the known values; NaN where there is none."""
    found = known(values)
    return float(np.mean(found)) if found else float("nan")


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of a sample (n - 1) of the known values; 0 where one or none is."""
    found = known(values)
    return float(np.std(found, ddof=1)) if len(found) > 1 else 0.0


def mean_std(values: Sequence[float], digits: int, separator: str = " ± ") -> str:
    """The mean and, of several values, the standard deviation, as text."""
    found = known(values)
    if not found:
        return NONE
    spread = f"{separator}{deviation(found):.{digits}f}" if len(found) > 1 else ""
    return f"{mean(found):.{digits}f}{spread}"


def is_number(text: str) -> bool:
    """Whether a cell is a number, with or without its deviation, or says that there is none."""
    return text.replace("±", "").replace(NONE, "").replace("NC", "").strip(" 0123456789.,%+-e") == ""
