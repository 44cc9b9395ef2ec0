"""What a model keeps from one phase to the next, as pure functions.

R[i, j] is the accuracy on the data of phase j after phase i, of T phases; all functions take it as rows
up to the last finished phase. Backward and forward transfer are those of Lopez-Paz and Ranzato (2017,
https://arxiv.org/abs/1706.08840), forgetting is that of Chaudhry et al. (2018,
https://arxiv.org/abs/1801.10112).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eunoe.metrics.forgetting import known_mean

Floats = NDArray[np.float64]


def backward_transfer(accuracy: ArrayLike) -> float:
    """mean_j<T (R[T, j] - R[j, j]): what the phases before gained (or lost) since; NaN for one phase."""
    table = np.asarray(accuracy, np.float64)
    last = len(table) - 1
    return float(known_mean([table[last, j] - table[j, j] for j in range(last)]))


def forward_transfer(accuracy: ArrayLike, untrained: ArrayLike) -> float:
    """mean_j>1 (R[j-1, j] - b[j]): what a phase's data gain before they come, b being a model that knows
    nothing; NaN for one phase."""
    table, base = np.asarray(accuracy, np.float64), np.asarray(untrained, np.float64)
    return float(known_mean([table[j - 1, j] - base[j] for j in range(1, len(table))]))


def temporal_forgetting(accuracy: ArrayLike) -> Floats:
    """max_i<T R[i, j] - R[T, j] of each phase j < T: what is left of its best; empty for one phase."""
    table = np.asarray(accuracy, np.float64)
    last = len(table) - 1
    return np.array([np.nanmax(table[j:last, j]) - table[last, j] for j in range(last)])


def recovery(curve: ArrayLike, rounds: Sequence[int], phases: Sequence[int]) -> list[int | None]:
    """Rounds until the accuracy is back at what it was before each later phase began; None: not yet."""
    heights, at = np.asarray(curve, np.float64), np.asarray(rounds)
    found: list[int | None] = []
    for number, first in enumerate(phases[1:], start=1):
        before = heights[at < first]
        until = phases[number + 1] if number + 1 < len(phases) else np.inf
        inside = (at >= first) & (at < until)
        if not len(before) or not inside.any():
            found.append(None)
            continue
        back = np.flatnonzero(heights[inside] >= before[-1])
        found.append(int(at[inside][back[0]] - first) if len(back) else None)
    return found
