"""Aggregations: how the changes of a round's clients become one, so that a few bad clients cannot own it.

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
aggregated in the same way, and so is what a method sums over clients. All but the mean keep every change of
a round in float64: participants x parameters x 8 bytes.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Options
from eunoe.errors import InputError

# Numbers that are sorted at a time (32 MB in float64).
_BLOCK = 4_000_000


class Aggregation(Options, ABC):
    """Base of the aggregations: rows of numbers, one per client, become one row."""

    # False for one that needs nothing but weighted sums, which are kept while updates come.
    needs_all: ClassVar[bool] = True

    def check(self, participants: int) -> None:
        """Raise InputError if rounds of so many clients are too small."""

    @abstractmethod
    def combine(self, changes: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        """One row from `values`, given the clients' changes and weights; changes are values too."""


class Mean(Aggregation):
    """The weighted mean; one client can move it anywhere."""

    needs_all: ClassVar[bool] = False

    def combine(self, changes: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        return weighted_mean(values, weights)


class Median(Aggregation):
    """The median of each coordinate; it stands up to fewer than half of the clients."""

    def combine(self, changes: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        return middle_mean(values, (len(values) - 1) // 2)


class TrimmedMean(Aggregation):
    """The mean of each coordinate without its largest and smallest values."""

    share: float = Field(
        0.2, gt=0, lt=0.5, description="Share of the clients left out at each end of a coordinate."
    )

    def check(self, participants: int) -> None:
        if not int(self.share * participants):
            raise InputError(
                f"aggregation.share = {self.share:g} of {participants} clients a round leaves none out: "
                f"set it to {1 / participants:.3g} or more, or let more clients take part"
            )

    def combine(self, changes: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        return middle_mean(values, int(self.share * len(values)))


class Krum(Aggregation):
    """The one change that is nearest to its neighbors."""

    bad: int = Field(1, ge=0, description="Number of bad clients in a round to stand up to.")

    def check(self, participants: int) -> None:
        if participants < 2 * self.bad + 3:
            raise InputError(
                f"aggregation.bad = {self.bad} needs at least {2 * self.bad + 3} clients a round, and "
                f"{participants} take part: lower it or raise participation"
            )

    def combine(self, changes: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        return values[int(krum_scores(changes, self.bad).argmin())].clone()


class MultiKrum(Krum):
    """The mean of the changes that are nearest to their neighbors."""

    keep: int = Field(3, ge=1, description="Number of clients whose mean is taken.")

    def check(self, participants: int) -> None:
        super().check(participants)
        if self.keep > participants - self.bad:
            raise InputError(
                f"aggregation.keep = {self.keep} of {participants} clients a round keeps bad ones too: "
                f"set it to at most {participants - self.bad}"
            )

    def combine(self, changes: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        best = krum_scores(changes, self.bad).argsort(stable=True)[: self.keep].sort().values
        return weighted_mean(values[best], weights[best])


class NormClip(Aggregation):
    """The weighted mean of changes whose norms are clipped to a multiple of their median."""

    factor: float = Field(
        1.0, gt=0, allow_inf_nan=False, description="Largest norm, as a multiple of the round's median norm."
    )

    def combine(self, changes: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        norms = torch.linalg.vector_norm(values, dim=1)
        limit = self.factor * middle_mean(norms[:, None], (len(norms) - 1) // 2)
        scale = torch.where(norms > limit, limit / norms, 1.0)
        return weighted_mean(values * scale[:, None], weights)


class GeometricMedian(Aggregation):
    """The point whose distances to all changes have the least sum."""

    iterations: int = Field(100, ge=1, le=10_000, description="Most steps of Weiszfeld's iteration.")

    def combine(self, changes: Tensor, values: Tensor, weights: Tensor) -> Tensor:
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


def krum_scores(changes: Tensor, bad: int) -> Tensor:
    """For each row the sum of squared distances to its nearest n - bad - 2 others (at least one)."""
    count = len(changes)
    distances = torch.zeros(count, count, dtype=changes.dtype)
    for first in range(count):
        for second in range(first + 1, count):
            gap = torch.linalg.vector_norm(changes[first] - changes[second]) ** 2
            distances[first, second] = distances[second, first] = gap
    nearest = max(1, count - bad - 2)
    # The first of each sorted row is the distance to itself.
    return distances.sort(1).values[:, 1 : nearest + 1].sum(1)
