"""Checks of an update before it is added: its form, the legal ranges of its values, its norms.

The norms of the change, of the changes of the float buffers (variances as standard deviations) and integer
buffers, and of uploads that ask for it are compared with those of other clients. With m the median norm and s
the median number of steps of clients (those with norm 0 left out), a client of K steps may have a norm of
FACTOR * m * max(1, K / s). There are two such medians: over the other clients of its round and over the last
rounds. The larger one counts, but the round's no more than FACTOR times the last rounds'. A change no larger
than the model itself always passes, and so does an upload no larger than what the method explains by the
change (`Method.explained_norms`). Without any median, as for a single client in round 1, the change may be
FACTOR times the norm of the model plus that of a vector of ones, and uploads are not bounded.

This stops updates that would end a federation, such as parameters of 1e30. It does not stop a client that
stays within FACTOR; the aggregations of server/robust.py do.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights
from eunoe.server.aggregate import Upload
from eunoe.server.updates import Limits, Update

# How many times the median norm an update may have; honest clients with batch norm and few samples exceed 20.
FACTOR = 100.0
# Rounds whose medians are kept.
REMEMBERED = 10
# An upload in float32 may exceed its range by rounding.
_ROUNDING = 1e-5


class NormStats(NamedTuple):
    """The median norm of some clients' vectors and their median number of steps."""

    norm: float
    steps: float


class Norms:
    """Norms of clients' vectors with the clients' steps; norms of 0 are left out."""

    def __init__(self, pairs: Iterable[tuple[float, float]]) -> None:
        moved = [(norm, steps) for norm, steps in pairs if norm > 0]
        self._norms, self._steps = sorted(norm for norm, _ in moved), sorted(steps for _, steps in moved)

    def stats(self) -> NormStats | None:
        """Return the medians; None without any norm."""
        return NormStats(median(self._norms), median(self._steps)) if self._norms else None

    def stats_without(self, norm: float, steps: float) -> NormStats | None:
        """Return the medians without the client of this norm and steps."""
        if not norm > 0:
            return self.stats()
        if len(self._norms) < 2:
            return None
        return NormStats(_median_without(self._norms, norm), _median_without(self._steps, steps))


class Floor(NamedTuple):
    """A norm that always passes and, for a vector of the model, the norm of as many ones."""

    norm: float
    ones: float | None = None


def floors_of(start: Vectors) -> dict[str, Floor]:
    """Return the norms of a model's vectors, up to which changes always pass."""
    vectors = {"change": start["parameters"], "float_buffers": start["float_buffers"]}
    return {name: Floor(_norm(v), math.sqrt(v.numel())) for name, v in vectors.items()}


def linear_vectors(weights: Weights, variances: Tensor | None) -> Vectors:
    """Return the vectors whose norms are checked, with standard deviations in place of variances.

    These grow with the weights, as parameters and means do, so that one limit fits all.
    """
    vectors = weights.vectors()
    if variances is not None and variances.any():
        buffers = weights.float_buffers.double()
        vectors["float_buffers"] = torch.where(variances, buffers.clamp(min=0).sqrt(), buffers)
    return vectors


def largest_norm(
    steps: int, others: NormStats | None, past: NormStats | None, factor: float = FACTOR
) -> float | None:
    """Return the largest legal norm of a client with so many steps; None without any median."""
    by_round, by_past = (
        known and factor * known.norm * max(1.0, steps / max(known.steps, 1.0)) for known in (others, past)
    )
    if by_round is None or by_past is None:
        return by_past if by_round is None else by_round
    return max(by_past, min(by_round, factor * by_past))


def change_of(new: Tensor, start: Tensor) -> Tensor:
    """Return `new - start` in float64, with one copy."""
    return new.to(torch.float64, copy=True).sub_(start)


def moved_norms(
    update: Update, start: Vectors, uploads: Mapping[str, Upload], variances: Tensor | None = None
) -> dict[str, float]:
    """Return the norms to check, by vector; `start` has the linear vectors of the model in float64."""
    norms = {
        "change" if name == "parameters" else name: _norm(change_of(new, start[name]))
        for name, new in linear_vectors(update.weights, variances).items()
        if new.numel()
    }
    bounded = (name for name, upload in uploads.items() if upload.factor is not None)
    return norms | {name: _norm(update.uploads[name].double()) for name in bounded}


def form_problem(
    update: Update,
    start: Weights,
    uploads: Mapping[str, Upload],
    limits: Limits | None = None,
    variances: Tensor | None = None,
) -> str | None:
    """Return why the form or the values of an update are illegal, or None.

    Without `limits` its size and steps are not checked; `variances` is a mask of the float buffers that must
    not be negative.
    """
    size, steps, labels = limits or (None, None, None)
    weights, wanted = update.weights, start.vectors()
    if any(value.shape != wanted[name].shape for name, value in weights.vectors().items()):
        return f"its update has {weights.parameters.numel()} parameters, not {start.parameters.numel()}"
    for name, upload in uploads.items():
        if name not in update.uploads or update.uploads[name].shape != (upload.size,):
            return f"its upload {name!r} is missing or has the wrong shape"
        if upload.entries is not None and int(update.uploads[name].count_nonzero()) > upload.entries:
            return f"its upload {name!r} has more values than the {upload.entries} that are declared"
    for value in (weights.parameters, weights.float_buffers, *update.uploads.values()):
        if not all_finite(value):
            return "its update is not finite"
    if variances is not None and bool((weights.float_buffers[variances] < 0).any()):
        return "its normalization statistics have a negative variance"
    if size is not None and update.size != size:
        return f"it trained on {update.size} samples, not on its {size}"
    if steps is not None and update.steps > steps:
        return f"it took {update.steps} steps, more than the {steps} that its data allow"
    units = {"client": 1, "sample": size if labels is None else labels, "step": steps}
    for name, upload in uploads.items():
        if (problem := range_problem(update.uploads[name], upload, units[upload.per])) is not None:
            return f"its upload {name!r} {problem}"
    return None


def range_problem(value: Tensor, upload: Upload, units: int | None) -> str | None:
    """Return why an upload's values are illegal, or None; without `units` there is no upper limit."""
    if upload.lowest is not None and float(value.min()) < upload.lowest - _ROUNDING * abs(upload.lowest):
        return f"has a value of {float(value.min()):g}, below {upload.lowest:g}"
    if upload.highest is not None and units is not None:
        highest = upload.highest * units
        largest = float(value.double().sum() if upload.total else value.max())
        if largest > highest + _ROUNDING * abs(highest):
            return f"has a {'sum' if upload.total else 'value'} of {largest:g}, above {highest:g}"
    if upload.whole and not bool((value == value.round()).all()):
        return "has values that are not whole numbers"
    return None


def norm_problem(
    norms: Mapping[str, float],
    steps: int,
    others: Mapping[str, NormStats | None],
    past: Mapping[str, NormStats | None],
    floors: Mapping[str, Floor],
    uploads: Mapping[str, Upload],
) -> str | None:
    """Return why a client's norms are too large, or None."""
    for name, norm in norms.items():
        factor = (uploads[name].factor if name in uploads else None) or FACTOR
        limit = largest_norm(steps, others.get(name), past.get(name), factor)
        if name in floors:
            floor = floors[name]
            if limit is None and floor.ones is not None:
                limit = factor * (floor.norm + floor.ones)
            limit = limit and max(limit, floor.norm)
        if limit is not None and norm > limit:
            what = f"upload {name!r}" if name in uploads else name.replace("_", " ")
            return f"its {what} has a norm of {norm:.3g}, above the limit of {limit:.3g}"
    return None


def append_stats(
    past: Mapping[str, Sequence[NormStats]], new: Mapping[str, NormStats | None]
) -> dict[str, list[NormStats]]:
    """Return the medians of the last rounds, with those of one more."""
    names = {**past, **new}
    rounds = {name: [*past.get(name, ()), *filter(None, [new.get(name)])] for name in names}
    return {name: stats[-REMEMBERED:] for name, stats in rounds.items() if stats}


def first_not_finite(weights: Weights, server: Vectors) -> str | None:
    """Return the name of the first of the server's vectors that is not finite, or None."""
    vectors = {"model": weights.parameters, "float buffers": weights.float_buffers, **server}
    return next((name for name, value in vectors.items() if not all_finite(value)), None)


def all_finite(value: Tensor) -> bool:
    """Return whether no value is infinite or NaN; both show in the minimum or maximum."""
    return not value.numel() or all(math.isfinite(end) for end in torch.aminmax(value))


def _norm(value: Tensor) -> float:
    return float(torch.linalg.vector_norm(value))


def _median_without(ordered: Sequence[float], value: float) -> float:
    """Return the median of sorted numbers without one of them, in constant time."""
    place, count = bisect_left(ordered, value), len(ordered) - 1
    low, high = ((k if k < place else k + 1) for k in ((count - 1) // 2, count // 2))
    return (ordered[low] + ordered[high]) / 2
