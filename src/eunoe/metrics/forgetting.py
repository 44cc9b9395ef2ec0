"""Measures of forgetting as pure functions on arrays.

Accuracies are float64 in [0, 1]. The accuracy of a class or client without test data is NaN, which every
mean leaves out. Forgetting is positive when accuracy was lost.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def known_mean(values: ArrayLike, axis: int | None = None) -> Any:
    """Return the mean of the values that are not NaN; NaN where there are none."""
    values = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(values)
    count = known.sum(axis=axis)
    total = np.where(known, values, 0.0).sum(axis=axis)
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return float(mean) if axis is None else mean


def running_mean(values: ArrayLike, window: int) -> Array:
    """Return the mean of the last `window` values at each position, leaving out NaN; NaN where all are."""
    values = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(values)
    counts, totals = (np.cumsum(sums) for sums in (known, np.where(known, values, 0.0)))
    counts, totals = (sums - np.pad(sums, (window, 0))[: len(sums)] for sums in (counts, totals))
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)


def per_class_accuracy(predicted: ArrayLike, labels: ArrayLike, classes: int) -> Array:
    """Return the accuracy of each class, [classes]; NaN for a class without samples.

    Example::

        per_class_accuracy([0, 1, 1], labels=[0, 0, 1], classes=3)  # array([0.5, 1. , nan])
    """
    predicted, labels = np.asarray(predicted), np.asarray(labels)
    count = np.bincount(labels, minlength=classes)
    right = np.bincount(labels[predicted == labels], minlength=classes)
    return np.where(count > 0, right / np.maximum(count, 1), np.nan)


def round_forgetting(previous: ArrayLike, current: ArrayLike) -> float:
    """Return F_t of the Flashback paper: mean accuracy that classes lost in one round; gains count as 0.

    Example::

        round_forgetting([0.8, 0.4], [0.5, 0.9])  # 0.15: the first class lost 0.3, the second lost nothing
    """
    lost = np.asarray(previous, np.float64) - np.asarray(current, np.float64)
    return float(known_mean(np.maximum(lost, 0.0)))


def fedntd_score(history: ArrayLike) -> float:
    """Return FedNTD's forgetting score: mean over classes of best earlier accuracy minus last.

    The history is [rounds, classes]. It is not clipped: a class that is at its best in the last round counts
    as negative. Backward transfer is its negative. NaN with fewer than two rounds.

    Example::

        fedntd_score([[0.9, 0.2], [0.5, 0.3], [0.6, 0.4]])  # 0.1 = ((0.9 - 0.6) + (0.3 - 0.4)) / 2
    """
    history = np.asarray(history, dtype=np.float64)
    if len(history) < 2:
        return float("nan")
    earlier = np.where(np.isnan(history[:-1]), -np.inf, history[:-1]).max(axis=0)
    return float(known_mean(np.where(np.isinf(earlier), np.nan, earlier) - history[-1]))


class Spread(NamedTuple):
    """How a number differs between clients."""

    mean: float
    deviation: float
    worst_tenth: float


def spread(values: ArrayLike) -> Spread:
    """Return how values differ over clients; worst_tenth is the mean of the lowest tenth (at least one)."""
    values = np.asarray(values, dtype=np.float64)
    known = np.sort(values[~np.isnan(values)])
    if not len(known):
        return Spread(*[float("nan")] * 3)
    lowest = known[: -(-len(known) // 10)]
    return Spread(float(known.mean()), float(known.std()), float(lowest.mean()))


class ClientForgetting(NamedTuple):
    """Client forgetting in a round: [models, clients' data], and the mean over other clients' data."""

    matrix: Array
    by_model: Array


def client_forgetting(
    start: ArrayLike, after: ArrayLike, model_owners: Sequence[int], data_owners: Sequence[int]
) -> ClientForgetting:
    """Return the accuracy on others' data that a client's training lost (WSM paper, equations 5 and 6).

    start[k] is the accuracy of the model that the clients started from on the data of data_owners[k];
    after[i, k] is that of the trained model of model_owners[i]. by_model is the mean over others' data, as in
    the last column of the paper's heat-maps.
    """
    matrix = np.asarray(start, np.float64)[None, :] - np.asarray(after, np.float64)
    own = np.asarray(model_owners)[:, None] == np.asarray(data_owners)[None, :]
    return ClientForgetting(matrix, known_mean(np.where(own, np.nan, matrix), axis=1))


class Steps(NamedTuple):
    """What local training and aggregation lost in a round."""

    local: Any
    aggregation: Any


def accounting(start: ArrayLike, local: ArrayLike, aggregated: ArrayLike) -> Steps:
    """Split a round's change of per-class accuracy [C] into two steps, exactly; what is gained is negative.

    start - aggregated = (start - mean of local) + (mean of local - aggregated), with local [clients, C].
    Aggregation often gains back what local training lost, so the parts have opposite signs and shares of the
    total mean nothing.

    Example::

        accounting([0.8], local=[[0.5], [0.3]], aggregated=[0.7])  # local [0.4], aggregation [-0.3]
    """
    start, aggregated = np.asarray(start, np.float64), np.asarray(aggregated, np.float64)
    middle = known_mean(local, axis=0)
    return Steps(start - middle, middle - aggregated)


def knowledge_lost(start: ArrayLike, local: ArrayLike, aggregated: ArrayLike) -> Steps:
    """Return what each step of a round lost, from per-class accuracies; gains count as 0.

    start and aggregated are [C], local is [clients, C]. Local training loses what the start model knew and a
    client's model does not: L is the mean over clients and classes of max(0, start - local). Aggregation
    loses what some client's model knew: G is the mean over classes of max(0, best local - aggregated).

    Example::

        knowledge_lost([0.8], local=[[0.5], [0.9]], aggregated=[0.7])  # local 0.15, aggregation 0.2
    """
    local = np.asarray(local, dtype=np.float64)
    forgotten = np.maximum(np.asarray(start, np.float64)[None, :] - local, 0.0)
    best = np.where(np.isnan(local), -np.inf, local).max(axis=0, initial=-np.inf)
    missed = np.maximum(np.where(np.isinf(best), np.nan, best) - np.asarray(aggregated, np.float64), 0.0)
    return Steps(float(known_mean(forgotten)), float(known_mean(missed)))


def rounds_to_accuracy(
    curve: ArrayLike, rounds: Sequence[int], shares: Sequence[float], target: float
) -> list[int | None]:
    """Return the first round that reaches each share of the target accuracy, or None (Flashback, table 1)."""
    curve = np.asarray(curve, dtype=np.float64)
    # 0.75 * 0.4 is a little above 0.3 in floating point; an accuracy of exactly 0.3 must count.
    reached = [np.flatnonzero(curve >= share * target - 1e-12) for share in shares]
    return [int(rounds[positions[0]]) if len(positions) else None for positions in reached]


def area_under_curve(curve: ArrayLike, rounds: ArrayLike) -> float:
    """Return the mean height of a curve (trapezoids), which is comparable between runs of any length."""
    heights, positions = np.asarray(curve, np.float64), np.asarray(rounds, np.float64)
    known = ~np.isnan(heights)
    y, x = heights[known], positions[known]
    return float(np.trapezoid(y, x) / (x[-1] - x[0])) if len(y) > 1 else float(known_mean(y))


def mean_over_rounds(values: ArrayLike, rounds: ArrayLike) -> float:
    """Return the mean of per-round values over a run, each weighted by the rounds since the one before.

    So a stretch in which every round was measured counts by its length. Round 1 has no value.
    """
    heights, positions = np.asarray(values, np.float64), np.asarray(rounds, np.int64)
    known = ~np.isnan(heights)
    y, x = heights[known], positions[known]
    return float(np.average(y, weights=np.diff(x, prepend=min(1, x[0] - 1)))) if len(y) else float("nan")


def mean_at_end(values: ArrayLike, rounds: ArrayLike, last: int) -> float:
    """Return the mean of the values of the last rounds; a run that stopped early has last rounds too."""
    heights, positions = np.asarray(values, np.float64), np.asarray(rounds, np.int64)
    return float(known_mean(heights[positions > positions.max(initial=0) - max(last, 1)]))


class DriftSum:
    """Sum of clients' updates (local minus start weights), added one at a time in the memory of a few models.

    The sums over all pairs of clients follow exactly from the sum of the vectors.
    """

    def __init__(self) -> None:
        self.lengths: list[float] = []
        self.total: Any = 0.0
        self.directions: Any = 0.0

    def add(self, update: ArrayLike) -> None:
        """Add one client's update."""
        update = np.asarray(update, dtype=np.float64)
        # BLAS norms depend on the number of threads in the last bits.
        length = float(np.sqrt(np.sum(update**2)))
        self.lengths.append(length)
        self.total = self.total + update
        if length > 0:
            self.directions = self.directions + update / length

    def result(self) -> tuple[list[float], float, float]:
        """Return each model's distance from the start, and over pairs the RMS distance and the mean cosine.

        The cosine is between updates; one of length 0 has no direction and is left out. NaN without pairs.
        """
        count, moved = len(self.lengths), sum(length > 0 for length in self.lengths)
        squares = count * sum(length**2 for length in self.lengths) - float(np.sum(self.total**2))
        along = float(np.sum(self.directions**2)) - moved
        return (
            self.lengths,
            (2 * max(squares, 0.0) / (count * (count - 1))) ** 0.5 if count > 1 else float("nan"),
            along / (moved * (moved - 1)) if moved > 1 else float("nan"),
        )


def count_shares(counts: ArrayLike, most: ArrayLike | None = None) -> Array:
    """Return label counts [clients, C] relative to the largest count of any client, `most` [C] if given.

    NaN for a class that no client has.
    """
    counts = np.asarray(counts, np.float64)
    most = counts.max(axis=0, initial=0.0) if most is None else np.asarray(most, np.float64)
    return np.where(most > 0, counts / np.maximum(most, 1.0), np.nan)


def correlation(first: Array, second: Array) -> float:
    """Return Pearson's correlation of the known values; NaN where either side does not vary.

    That of `count_shares` with the mean output probability of each class is figure 9 of the Flashback paper.
    """
    known = ~np.isnan(first) & ~np.isnan(second)
    x, y = first[known], second[known]
    varies = len(x) > 1 and float(np.ptp(x)) > 0 and float(np.ptp(y)) > 0
    return float(np.corrcoef(x, y)[0, 1]) if varies else float("nan")


def reweighted_accuracy(per_class: ArrayLike, counts: ArrayLike) -> Array:
    """Return the accuracy that models would have on data with each client's label distribution.

    per_class [..., C] and counts [clients, C] give [..., clients]. It stands in for clients' own test data
    where these are too few. Classes without accuracy are left out; a client with no other class gets NaN.
    """
    per_class, counts = np.asarray(per_class, np.float64), np.asarray(counts, np.float64)
    known = ~np.isnan(per_class)
    # BLAS products depend on the number of threads in the last bits.
    weight = np.einsum("...c,kc->...k", known.astype(np.float64), counts)
    total = np.einsum("...c,kc->...k", np.where(known, per_class, 0.0), counts)
    return np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), np.nan)
