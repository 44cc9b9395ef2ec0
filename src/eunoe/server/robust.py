"""Aggregations of the clients' changes in a round; all but the mean tolerate some malicious clients.

With x_k = y_k - w the change of client k (or what the method makes of it) and p_k its weight:

    mean              sum_k p_k x_k / sum_k p_k
    median            the median of each coordinate, of an even number the mean of the middle two
    trimmed_mean      the mean of each coordinate without its floor(share n) largest and as many smallest
    krum              the x_k with the least sum of squared distances to its n - bad - 2 nearest others
    multi_krum        the mean of the `keep` changes that are best by that sum
    norm_clip         the mean of x_k min(1, factor m / ||x_k||), with m the median of the norms
    geometric_median  the point with the least sum of distances to all x_k (Weiszfeld's iteration)

median and trimmed_mean: Yin et al. (2018, https://arxiv.org/abs/1803.01498). krum and multi_krum: Blanchard
et al. (2017, https://arxiv.org/abs/1703.02757). norm_clip: after Sun et al. (2019,
https://arxiv.org/abs/1911.07963), with the bound taken from the round. geometric_median: Pillutla et al.
(2022, https://arxiv.org/abs/1912.13445), unweighted and not smoothed.

The mean, norm_clip and multi_krum weight clients as the method does; the others count each client once, so
that a client gains nothing from a size that it made up. Float buffers (normalization statistics) are
aggregated in the same way, and so is what a method sums over clients; the distances of krum are over all of
them. All but the mean keep every change of a round in float64: participants x parameters x 8 bytes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Finite, Options
from eunoe.errors import InputError

# Numbers that are sorted at a time (32 MB in float64).
_BLOCK = 4_000_000


class Aggregation(Options, ABC):
    """Base of the aggregations: rows of numbers, one per client, become one row."""

    # False for one that needs nothing but weighted sums, which are kept while updates come.
    needs_all: ClassVar[bool] = True
    # True for one that prefers updates with near copies, whatever they hold.
    prefers_copies: ClassVar[bool] = False

    def check(self, participants: int) -> None:
        """Raise InputError if rounds of so many clients are too small."""

    @abstractmethod
    def combine(self, vectors: Sequence[Tensor], values: Tensor, weights: Tensor) -> Tensor:
        """Return one row from `values`, which are one of the vectors of the clients, with these weights."""


class Mean(Aggregation):
    """The weighted mean, which a single client can change arbitrarily."""

    needs_all = False

    def combine(self, vectors: Sequence[Tensor], values: Tensor, weights: Tensor) -> Tensor:
        return weighted_mean(values, weights)


class Median(Aggregation):
    """The median of each coordinate, which tolerates malicious clients up to a half."""

    def combine(self, vectors: Sequence[Tensor], values: Tensor, weights: Tensor) -> Tensor:
        return middle_mean(values, (len(values) - 1) // 2)


class TrimmedMean(Aggregation):
    """The mean of each coordinate without its largest and smallest values."""

    share: float = Field(0.2, gt=0, lt=0.5, description="Share of clients to trim at each end.")

    def check(self, participants: int) -> None:
        if not int(self.share * participants):
            least = 1 / participants
            raise InputError(f"aggregation.share = {self.share:g} trims no client: set at least {least:.3g}")

    def combine(self, vectors: Sequence[Tensor], values: Tensor, weights: Tensor) -> Tensor:
        return middle_mean(values, int(self.share * len(values)))


class Krum(Aggregation):
    """The one change that is nearest to its neighbors; a few clients with the same vector can own it."""

    prefers_copies: ClassVar[bool] = True

    bad: int = Field(1, ge=0, description="Number of malicious clients per round to tolerate.")

    def check(self, participants: int) -> None:
        if participants < 2 * self.bad + 3:
            raise InputError(
                f"aggregation.bad = {self.bad} requires {2 * self.bad + 3} clients per round, and "
                f"{participants} take part: lower it or raise participation"
            )

    def combine(self, vectors: Sequence[Tensor], values: Tensor, weights: Tensor) -> Tensor:
        return values[int(krum_scores(vectors, self.bad).argmin())].clone()


class MultiKrum(Krum):
    """The mean of the changes that are nearest to their neighbors; weak against equal vectors, as krum."""

    keep: int = Field(3, ge=1, description="Number of clients whose mean is taken.")

    def check(self, participants: int) -> None:
        super().check(participants)
        most = participants - self.bad
        if self.keep > most:
            raise InputError(f"aggregation.keep = {self.keep} is too large: set at most {most}")

    def combine(self, vectors: Sequence[Tensor], values: Tensor, weights: Tensor) -> Tensor:
        best = krum_scores(vectors, self.bad).argsort(stable=True)[: self.keep].sort().values
        return weighted_mean(values[best], weights[best])


class NormClip(Aggregation):
    """The weighted mean of changes whose norms are clipped to a multiple of their median."""

    factor: Finite = Field(1.0, gt=0, description="Largest norm in multiples of the median norm.")

    def combine(self, vectors: Sequence[Tensor], values: Tensor, weights: Tensor) -> Tensor:
        norms = torch.linalg.vector_norm(values, dim=1)
        limit = self.factor * middle_mean(norms[:, None], (len(norms) - 1) // 2)
        scale = torch.where(norms > limit, limit / norms, 1.0)
        return weighted_mean(values * scale[:, None], weights)


class GeometricMedian(Aggregation):
    """The point whose distances to all changes have the least sum."""

    iterations: int = Field(100, ge=1, le=10_000, description="Most steps of Weiszfeld's iteration.")

    def combine(self, vectors: Sequence[Tensor], values: Tensor, weights: Tensor) -> Tensor:
        # Not the median, which may be one of the rows, where the iteration would stay.
        point = middle_mean(values, len(values) // 4)
        for _ in range(self.iterations):
            distances = torch.linalg.vector_norm(values - point, dim=1)
            # A row that the point has reached keeps a large but finite pull.
            pulls = 1 / distances.clamp(min=1e-12)
            moved = weighted_mean(values, pulls)
            if float(torch.linalg.vector_norm(moved - point)) <= 1e-9 * float(distances.mean()):
                return moved
            point = moved
        return point


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of rows, added one by one in their order."""
    total = torch.zeros_like(values[0])
    for row, weight in zip(values, weights.tolist(), strict=True):
        total.add_(row, alpha=weight)
    return total / float(weights.sum())


def middle_mean(values: Tensor, cut: int) -> Tensor:
    """Return the mean of each column without its `cut` smallest and `cut` largest values."""
    if not values.shape[1]:
        return values.new_zeros(0)
    # As many columns at a time as memory allows.
    blocks = torch.split(values, max(1, _BLOCK // len(values)), dim=1)
    return torch.cat([block.sort(0).values[cut : len(block) - cut].mean(0) for block in blocks])


def krum_scores(vectors: Sequence[Tensor], bad: int) -> Tensor:
    """For each client the sum of squared distances to its nearest n - bad - 2 others (at least one).

    Several vectors, as parameters and normalization statistics, count alike: the squared distances of each
    are divided by the median of its own scores.
    """
    distances = [squared_distances(vector) for vector in vectors if vector.shape[1]]
    if len(distances) > 1:
        # A vector in which most clients agree counts without bound.
        distances = [each / max(float(_nearest_sum(each, bad).median()), 1e-300) for each in distances]
    return _nearest_sum(sum(distances[1:], distances[0]), bad)


def squared_distances(rows: Tensor) -> Tensor:
    """Return the squared distance of each pair of rows."""
    count = len(rows)
    distances = torch.zeros(count, count, dtype=rows.dtype)
    for first in range(count):
        for second in range(first + 1, count):
            gap = torch.linalg.vector_norm(rows[first] - rows[second]) ** 2
            distances[first, second] = distances[second, first] = gap
    return distances


def _nearest_sum(distances: Tensor, bad: int) -> Tensor:
    # The first of each sorted row is the distance to itself.
    return distances.sort(1).values[:, 1 : max(1, len(distances) - bad - 2) + 1].sum(1)


def near_copies(rows: Tensor) -> list[int]:
    """Return the rows whose distance to another one is below a hundredth of the median distance."""
    distances = torch.cdist(rows, rows)
    pairs = distances.triu(1) + distances.new_full(distances.shape, torch.inf).tril()
    near = distances.fill_diagonal_(torch.inf) < 0.01 * pairs[pairs.isfinite()].median()
    return [int(row) for row in near.any(1).nonzero()]
