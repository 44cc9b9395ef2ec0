"""What a federated model forgets, as pure functions on arrays.

Accuracies are float64 in [0, 1]. A class or client without test data has no accuracy: it is NaN, it is left
out of every mean, and it never counts as 0. Forgetting is positive when accuracy was lost.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def known_mean(values: ArrayLike, axis: int | None = None) -> Any:
    """Mean of the values that are not NaN; NaN where there are none."""
    values = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(values)
    count = known.sum(axis=axis)
    total = np.where(known, values, 0.0).sum(axis=axis)
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return float(mean) if axis is None else mean


def running_mean(values: ArrayLike, window: int) -> Array:
    """At each position the mean of the last values that are not NaN, at most `window` back; NaN for none."""
    values = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(values)
    counts, totals = (np.cumsum(one) for one in (known, np.where(known, values, 0.0)))
    counts, totals = (one - np.pad(one, (window, 0))[: len(one)] for one in (counts, totals))
    mean: Array = np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)
    return mean


def per_class_accuracy(predicted: ArrayLike, labels: ArrayLike, classes: int) -> Array:
    """Share of each class's samples that were predicted right, [classes]; NaN for a class without samples."""
    predicted, labels = np.asarray(predicted), np.asarray(labels)
    count = np.bincount(labels, minlength=classes)
    right = np.bincount(labels[predicted == labels], minlength=classes)
    return np.where(count > 0, right / np.maximum(count, 1), np.nan)


def round_forgetting(previous: ArrayLike, current: ArrayLike) -> float:
    """F_t of the Flashback paper: mean over classes of the accuracy one round lost; gains count as 0."""
    lost = np.asarray(previous, np.float64) - np.asarray(current, np.float64)
    return float(known_mean(np.maximum(lost, 0.0)))


def fedntd_score(history: ArrayLike) -> float:
    """FedNTD's forgetting score: mean over classes of best earlier accuracy minus last.

    The history is [rounds, classes]. It is not clipped: a class that is at its best in the last round counts
    as negative. Backward transfer is its negative. NaN with fewer than two rounds.
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
    """How values differ over clients; worst_tenth is the mean of the lowest tenth (at least one client)."""
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
    """Accuracy on others' data that a client's own training lost (WSM paper, equations 5 and 6).

    start[k] is the accuracy of the model that the clients started from on the data of data_owners[k];
    after[i, k] is that of the trained model of model_owners[i]. by_model is the mean over others' data, as in
    the last column of the paper's heat-maps; by_data the mean over others' models, as in its formula.
    """
    matrix = np.asarray(start, np.float64)[None, :] - np.asarray(after, np.float64)
    own = np.asarray(model_owners)[:, None] == np.asarray(data_owners)[None, :]
    others = np.where(own, np.nan, matrix)
    return ClientForgetting(matrix, known_mean(others, axis=1), known_mean(others, axis=0))


class Accounting(NamedTuple):
    """Where a round's accuracy went, per class: positive is lost, negative gained."""

    local: Array
    merge: Array


def accounting(start: ArrayLike, local: ArrayLike, merged: ArrayLike) -> Accounting:
    """Split a round's change of per-class accuracy [C] into local training and merge, exactly.

    start - merged = (start - mean of local) + (mean of local - merged), with local [clients, C]. Aggregation
    often gains back what local training lost, so the parts have opposite signs and shares of the total mean
    nothing.
    """
    start, merged = np.asarray(start, np.float64), np.asarray(merged, np.float64)
    middle = known_mean(local, axis=0)
    return Accounting(start - middle, middle - merged)


class KnowledgeLost(NamedTuple):
    """Knowledge that was there and is gone, never negative: by local training (L) and by aggregation (G)."""

    local: float
    merge: float


def knowledge_lost(start: ArrayLike, local: ArrayLike, merged: ArrayLike) -> KnowledgeLost:
    """Knowledge lost in a round's two steps, from per-class accuracies.

    start and merged are [C], local is [clients, C]. Local training loses what the start model knew and a
    client's model no longer knows: L is the mean over clients and classes of max(0, start - local).
    Aggregation loses what at least one client's model knew: G is the mean over classes of
    max(0, best local - merged).
    """
    local = np.asarray(local, dtype=np.float64)
    forgotten = np.maximum(np.asarray(start, np.float64)[None, :] - local, 0.0)
    best = np.where(np.isnan(local), -np.inf, local).max(axis=0, initial=-np.inf)
    missed = np.maximum(np.where(np.isinf(best), np.nan, best) - np.asarray(merged, np.float64), 0.0)
    return KnowledgeLost(float(known_mean(forgotten)), float(known_mean(missed)))


def saw_tooth(
    rounds: ArrayLike, start: ArrayLike, local: ArrayLike, merged: ArrayLike
) -> tuple[Array, Array]:
    """Positions and losses of the saw-tooth line: start at t - 1, mean local at t - 1/2, merged at t.

    start and merged are [rounds]; local is [rounds, clients], NaN where a round had fewer clients.
    """
    rounds = np.asarray(rounds, dtype=np.float64)
    positions = np.stack([rounds - 1, rounds - 0.5, rounds], axis=1)
    losses = np.stack([np.asarray(start, np.float64), known_mean(local, axis=1), np.asarray(merged)], axis=1)
    return positions.ravel(), losses.ravel()


def rounds_to_accuracy(
    curve: ArrayLike, rounds: Sequence[int], shares: Sequence[float], target: float
) -> list[int | None]:
    """First round that reaches each share of the target accuracy, or None (Flashback paper, table 1)."""
    curve = np.asarray(curve, dtype=np.float64)
    found: list[int | None] = []
    for share in shares:
        # 0.75 * 0.4 is a little above 0.3 in floating point; an accuracy of exactly 0.3 must count.
        reached = np.flatnonzero(curve >= share * target - 1e-12)
        found.append(int(rounds[reached[0]]) if len(reached) else None)
    return found


def area_under_curve(curve: ArrayLike, rounds: ArrayLike) -> float:
    """Mean height of a curve over its rounds, by trapezoids, so that runs of different length compare."""
    heights, positions = np.asarray(curve, np.float64), np.asarray(rounds, np.float64)
    known = ~np.isnan(heights)
    y, x = heights[known], positions[known]
    return float(np.trapezoid(y, x) / (x[-1] - x[0])) if len(y) > 1 else float(known_mean(y))


def mean_over_rounds(values: ArrayLike, rounds: ArrayLike) -> float:
    """Mean over a run of what single rounds did, each measured round standing for those since the last one.

    A stretch in which every round was measured counts no more than its length. Round 1 has no value.
    """
    heights, positions = np.asarray(values, np.float64), np.asarray(rounds, np.int64)
    known = ~np.isnan(heights)
    y, x = heights[known], positions[known]
    return float(np.average(y, weights=np.diff(x, prepend=min(1, x[0] - 1)))) if len(y) else float("nan")


def mean_at_end(values: ArrayLike, rounds: ArrayLike, last: int) -> float:
    """Mean of what was measured in the last so many rounds of those that there are."""
    heights, positions = np.asarray(values, np.float64), np.asarray(rounds, np.int64)
    # A run that stopped early has last rounds too.
    return float(known_mean(heights[positions > positions.max(initial=0) - max(last, 1)]))


class Drift(NamedTuple):
    """How far local training took the clients' models from where they started and from each other."""

    from_start: Array
    apart: float
    cosine: float


class DriftSum:
    """Adds up clients' updates (local minus start weights) one at a time, in the memory of a few models.

    The sums over all pairs of clients follow exactly from the sum of the vectors.
    """

    def __init__(self) -> None:
        self.lengths: list[float] = []
        self.total: Any = 0.0
        self.directions: Any = 0.0

    def add(self, update: ArrayLike) -> None:
        """Count one client's update."""
        update = np.asarray(update, dtype=np.float64)
        # Not a norm of BLAS, whose bits depend on the number of threads.
        length = float(np.sqrt(np.sum(update**2)))
        self.lengths.append(length)
        self.total = self.total + update
        if length > 0:
            self.directions = self.directions + update / length

    def result(self) -> Drift:
        """Each model's distance from the start, the root mean square distance and the mean cosine over pairs.

        The cosine is between updates; one of length 0 has no direction and is left out. NaN without pairs.
        """
        count, moved = len(self.lengths), sum(length > 0 for length in self.lengths)
        squares = count * sum(length**2 for length in self.lengths) - float(np.sum(self.total**2))
        along = float(np.sum(self.directions**2)) - moved
        return Drift(
            np.array(self.lengths),
            (2 * max(squares, 0.0) / (count * (count - 1))) ** 0.5 if count > 1 else float("nan"),
            along / (moved * (moved - 1)) if moved > 1 else float("nan"),
        )


def ecdf(values: ArrayLike) -> tuple[Array, Array]:
    """The distinct values in order, and the share of values at or below each; NaN is left out."""
    values = np.asarray(values, dtype=np.float64).ravel()
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    return distinct, np.cumsum(counts) / max(int(counts.sum()), 1)


class ProbabilityByCount(NamedTuple):
    """Whether a client's model believes in a class as much as the client's data hold of it."""

    count_share: Array
    probability: Array
    correlation: float


def probability_by_count(
    probability: ArrayLike, counts: ArrayLike, most: ArrayLike | None = None
) -> ProbabilityByCount:
    """Mean output probability per class of local models against label counts (Flashback paper, figure 9).

    Both are [clients, C]. A class's counts are divided by the most that any client has of it (NaN for a class
    that no client has): `most` [C] where there are clients besides these. The correlation is Pearson's over
    all clients and classes, NaN where either side does not vary.
    """
    probability, counts = np.asarray(probability, np.float64), np.asarray(counts, np.float64)
    most = counts.max(axis=0, initial=0.0) if most is None else np.asarray(most, np.float64)
    share = np.where(most > 0, counts / np.maximum(most, 1.0), np.nan)
    known = ~np.isnan(share) & ~np.isnan(probability)
    x, y = share[known], probability[known]
    varies = len(x) > 1 and float(np.ptp(x)) > 0 and float(np.ptp(y)) > 0
    return ProbabilityByCount(share, probability, float(np.corrcoef(x, y)[0, 1]) if varies else float("nan"))


def reweighted_accuracy(per_class: ArrayLike, counts: ArrayLike) -> Array:
    """Accuracy that models would have on data with each client's label mix.

    per_class [..., C] and counts [clients, C] give [..., clients]. It stands in for a client's own test data
    where these are too few. Classes without accuracy are left out of the mix; a client with no other class
    gets NaN.
    """
    per_class, counts = np.asarray(per_class, np.float64), np.asarray(counts, np.float64)
    known = ~np.isnan(per_class)
    # Not a product of BLAS, whose bits depend on the number of threads.
    weight = np.einsum("...c,kc->...k", known.astype(np.float64), counts)
    total = np.einsum("...c,kc->...k", np.where(known, per_class, 0.0), counts)
    return np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), np.nan)
