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
    mean: Array = np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)
    return mean


def per_class_accuracy(predicted: ArrayLike, labels: ArrayLike, classes: int) -> Array:
    """Return the accuracy of each class, [classes]; NaN for a class without samples.

    Example::

        per_class_accuracy([0, 1, 1], labels=[0, 0, 1], classes=3)  # array([0.5, 1. , nan])
    """
    predicted, labels = np.asarray(predicted), np.asarray(labels)
    count = np.bincount(labels, minlength=classes)
    right = np.bincount(labels[predicted == labels], minlength=classes)
    return np.where(count > 0, right / np.maximum(count, 1), np.nan)


def per_label_accuracy(predicted: ArrayLike, labels: ArrayLike) -> Array:
    """Return the balanced accuracy of each label, [labels], from 0 and 1 [samples, labels].

    It is the mean of sensitivity and specificity, so a label that is never or always predicted has 0.5,
    however rare it is. NaN for a label that all samples have, or none.
    """
    predicted, labels = np.asarray(predicted) > 0, np.asarray(labels) > 0
    return balanced_accuracy(
        (predicted & labels).sum(axis=0), labels.sum(axis=0), (~predicted & ~labels).sum(axis=0), len(labels)
    )


def balanced_accuracy(
    true_positives: ArrayLike, positives: ArrayLike, true_negatives: ArrayLike, samples: ArrayLike
) -> Array:
    """Return the balanced accuracy of each label from its counts."""
    right = np.stack([np.asarray(true_positives, np.float64), np.asarray(true_negatives, np.float64)])
    present = np.asarray(positives, np.float64)
    count = np.stack([present, np.asarray(samples, np.float64) - present])
    shares: Array = np.where(count > 0, right / np.maximum(count, 1), np.nan).mean(axis=0)
    return shares


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
    """Local client forgetting of one round: rows are models, columns are whose data."""

    matrix: Array
    by_model: Array
    by_data: Array


def client_forgetting(
    start: ArrayLike, after: ArrayLike, model_owners: Sequence[int], data_owners: Sequence[int]
) -> ClientForgetting:
    """Return the accuracy on others' data that a client's training lost (WSM paper, equations 5 and 6).

    start[k] is the accuracy of the model that the clients started from on the data of data_owners[k];
    after[i, k] is that of the trained model of model_owners[i]. by_model is the mean over others' data, as in
    the last column of the paper's heat-maps; by_data the mean over others' models, as in its formula.
    """
    matrix = np.asarray(start, np.float64)[None, :] - np.asarray(after, np.float64)
    own = np.asarray(model_owners)[:, None] == np.asarray(data_owners)[None, :]
    others = np.where(own, np.nan, matrix)
    return ClientForgetting(matrix, known_mean(others, axis=1), known_mean(others, axis=0))


class Accounting(NamedTuple):
    """Change of per-class accuracy in each step of a round: positive is lost, negative gained."""

    local: Array
    aggregation: Array


def accounting(start: ArrayLike, local: ArrayLike, aggregated: ArrayLike) -> Accounting:
    """Split a round's change of per-class accuracy [C] into local training and aggregation, exactly.

    start - aggregated = (start - mean of local) + (mean of local - aggregated), with local [clients, C].
    Aggregation often gains back what local training lost, so the parts have opposite signs and shares of the
    total mean nothing.

    Example::

        accounting([0.8], local=[[0.5], [0.3]], aggregated=[0.7])  # local [0.4], aggregation [-0.3]
    """
    start, aggregated = np.asarray(start, np.float64), np.asarray(aggregated, np.float64)
    middle = known_mean(local, axis=0)
    return Accounting(start - middle, middle - aggregated)


class KnowledgeLost(NamedTuple):
    """Accuracy lost in each step of a round, never negative: local training (L) and aggregation (G)."""

    local: float
    aggregation: float


def knowledge_lost(start: ArrayLike, local: ArrayLike, aggregated: ArrayLike) -> KnowledgeLost:
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
    return KnowledgeLost(float(known_mean(forgotten)), float(known_mean(missed)))


def saw_tooth(
    rounds: ArrayLike, start: ArrayLike, local: ArrayLike, aggregated: ArrayLike
) -> tuple[Array, Array]:
    """Return positions and losses of the saw-tooth line: start at t - 1, mean local at t - 1/2, global at t.

    start and aggregated are [rounds]; local is [rounds, clients], NaN where a round had fewer clients.
    """
    rounds = np.asarray(rounds, dtype=np.float64)
    positions = np.stack([rounds - 1, rounds - 0.5, rounds], axis=1)
    losses = [np.asarray(start, np.float64), known_mean(local, axis=1), np.asarray(aggregated)]
    return positions.ravel(), np.stack(losses, axis=1).ravel()


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


class DriftNumbers(NamedTuple):
    """Distance of local models from the start model and from each other, and cosine between updates."""

    from_start: Array
    apart: float
    cosine: float


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
        # Not a norm of BLAS, whose bits depend on the number of threads.
        length = float(np.sqrt(np.sum(update**2)))
        self.lengths.append(length)
        self.total = self.total + update
        if length > 0:
            self.directions = self.directions + update / length

    def result(self) -> DriftNumbers:
        """Return each model's distance from the start, and over pairs the RMS distance and the mean cosine.

        The cosine is between updates; one of length 0 has no direction and is left out. NaN without pairs.
        """
        count, moved = len(self.lengths), sum(length > 0 for length in self.lengths)
        squares = count * sum(length**2 for length in self.lengths) - float(np.sum(self.total**2))
        along = float(np.sum(self.directions**2)) - moved
        return DriftNumbers(
            np.array(self.lengths),
            (2 * max(squares, 0.0) / (count * (count - 1))) ** 0.5 if count > 1 else float("nan"),
            along / (moved * (moved - 1)) if moved > 1 else float("nan"),
        )


def ecdf(values: ArrayLike) -> tuple[Array, Array]:
    """Return the distinct values in order, and the share of values at or below each, leaving out NaN."""
    values = np.asarray(values, dtype=np.float64).ravel()
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return distinct, np.cumsum(counts) / max(int(counts.sum()), 1)


class ProbabilityByCount(NamedTuple):
    """Output probability of each class against its share in the client's data, [clients, C]."""

    count_share: Array
    probability: Array
    correlation: float


def probability_by_count(
    probability: ArrayLike, counts: ArrayLike, most: ArrayLike | None = None
) -> ProbabilityByCount:
    """Relate the mean output probability of each class to label counts (Flashback paper, figure 9).

    Both are [clients, C]. A class's counts are divided by the largest count of any client (NaN for a class
    that no client has): `most` [C] if there are further clients. The correlation is Pearson's over all
    clients and classes, NaN where either side does not vary.
    """
    probability, counts = np.asarray(probability, np.float64), np.asarray(counts, np.float64)
    most = counts.max(axis=0, initial=0.0) if most is None else np.asarray(most, np.float64)
    share = np.where(most > 0, counts / np.maximum(most, 1.0), np.nan)
    known = ~np.isnan(share) & ~np.isnan(probability)
    x, y = share[known], probability[known]
    varies = len(x) > 1 and float(np.ptp(x)) > 0 and float(np.ptp(y)) > 0
    return ProbabilityByCount(share, probability, float(np.corrcoef(x, y)[0, 1]) if varies else float("nan"))


def reweighted_accuracy(per_class: ArrayLike, counts: ArrayLike) -> Array:
    """Return the accuracy that models would have on data with each client's label distribution.

    per_class [..., C] and counts [clients, C] give [..., clients]. It stands in for clients' own test data
    where these are too few. Classes without accuracy are left out; a client with no other class gets NaN.
    """
    per_class, counts = np.asarray(per_class, np.float64), np.asarray(counts, np.float64)
    known = ~np.isnan(per_class)
    # Not a product of BLAS, whose bits depend on the number of threads.
    weight = np.einsum("...c,kc->...k", known.astype(np.float64), counts)
    total = np.einsum("...c,kc->...k", np.where(known, per_class, 0.0), counts)
    return np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), np.nan)
