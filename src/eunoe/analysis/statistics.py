"""Mean and standard deviation over seeds: computed and formatted here and nowhere else."""

from collections.abc import Sequence

import numpy as np

# Shown in place of a missing number.
NONE = "–"


def known(values: Sequence[float]) -> list[float]:
    """The finite values."""
    return [float(value) for value in values if np.isfinite(value)]


def mean(values: Sequence[float]) -> float:
    """The mean of the finite values; NaN if there are none."""
    found = known(values)
    return float(np.mean(found)) if found else float("nan")


def deviation(values: Sequence[float]) -> float:
    """The sample standard deviation (n - 1) of the finite values; 0 for fewer than two."""
    found = known(values)
    return float(np.std(found, ddof=1)) if len(found) > 1 else 0.0


def mean_std(values: Sequence[float], digits: int, separator: str = " ± ") -> str:
    """Format the mean and, for several values, the standard deviation."""
    found = known(values)
    if not found:
        return NONE
    spread = f"{separator}{deviation(found):.{digits}f}" if len(found) > 1 else ""
    return f"{mean(found):.{digits}f}{spread}"


def is_number(text: str) -> bool:
    """Whether a cell holds a number, with or without a deviation, or marks a missing one."""
    return text.replace("±", "").replace(NONE, "").replace("NC", "").strip(" 0123456789.,%+-e") == ""
