"""Statistics of a partition, from the label counts [clients, classes]."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from eunoe.core.tasks import CLASSIFICATION, MULTILABEL
from eunoe.data.checks import Array, Integers

Floats = NDArray[np.float64]
# Clients count as alike below this mean distance from the overall mix, or below this multiple of the distance
# expected by chance.
ALIKE, CHANCE = 0.2, 1.25


class PerClient(NamedTuple):
    """Statistics of each client's label counts."""

    sizes: Integers
    classes: Integers
    entropy: Floats
    distance: Floats


@dataclass(frozen=True)
class PartitionNumbers:
    """Means and extremes over the clients that have samples."""

    clients: int
    samples: int
    size_mean: float
    size_min: int
    size_max: int
    classes_mean: float
    classes_min: int
    classes_max: int
    # In bits: 0 for one class, log2(C) for an even mix of C classes.
    entropy_mean: float
    # Half the sum of absolute differences between a client's class shares and those of all clients
    # together: 0 is the same mix, 1 no class in common.
    distance_mean: float
    single_class_share: float


def label_counts(labels: Array, order: Integers, offsets: Integers, classes: int) -> Integers:
    """Return the label counts [clients, classes] of clients with these offsets, all or some in a row."""
    clients = len(offsets) - 1
    owners = torch.from_numpy(np.repeat(np.arange(clients), np.diff(offsets)))
    own = torch.from_numpy(labels[order[offsets[0] : offsets[-1]]])
    task = MULTILABEL if labels.ndim > 1 else CLASSIFICATION
    return task.counts(own, owners, clients, classes).numpy()


def per_client(counts: Integers) -> PerClient:
    """Return size, classes, entropy (bits) and distance from the overall mix of each client [clients].

    Clients without samples have NaN as entropy and distance.
    """
    whole, sizes = counts.sum(0), counts.sum(1)
    with np.errstate(invalid="ignore"):
        shares = counts / sizes[:, None]
    bits = np.log2(shares, out=np.zeros_like(shares), where=counts > 0)
    distance = np.abs(shares - whole / max(1, whole.sum())).sum(1) / 2
    return PerClient(sizes, (counts > 0).sum(1), np.abs((shares * bits).sum(1)), distance)


def alike(counts: Integers) -> bool:
    """Return whether the clients' class mixes differ little, or not much more than by chance."""
    distance = summarize(per_client(counts)).distance_mean
    return distance < max(ALIKE, CHANCE * distance_by_chance(counts))


def distance_by_chance(counts: Integers) -> float:
    """Return the expected mean distance of clients of these sizes that all draw from the same mix.

    A share p of n samples is off by sqrt(2 p (1 - p) / (pi n)) on average, by the normal approximation.
    """
    sizes, shares = counts.sum(1), counts.sum(0) / max(1, counts.sum())
    off = np.sqrt(2 * shares * (1 - shares) / np.pi).sum() / 2
    return float(np.mean(off / np.sqrt(sizes[sizes > 0])))


def summarize(clients: PerClient) -> PartitionNumbers:
    """Compute means and extremes over the clients that have samples."""
    sizes, classes, entropy, distance = (values[clients.sizes > 0] for values in clients)
    return PartitionNumbers(
        **size_numbers(sizes),
        classes_mean=float(classes.mean()),
        classes_min=int(classes.min()),
        classes_max=int(classes.max()),
        entropy_mean=float(entropy.mean()),
        distance_mean=float(distance.mean()),
        single_class_share=float((classes == 1).mean()),
    )


def partition_numbers(labels: Array, order: Integers, offsets: Integers, classes: int) -> PartitionNumbers:
    """Return the statistics of a partition."""
    numbers = summarize(per_client(label_counts(labels, order, offsets, classes)))
    # A multilabel sample counts once, not once for each of its labels.
    return replace(numbers, **size_numbers(np.diff(offsets))) if labels.ndim > 1 else numbers


def size_numbers(sizes: Array) -> dict[str, Any]:
    """Return the part of `PartitionNumbers` that depends only on the clients' sizes."""
    return {
        "clients": len(sizes),
        "samples": int(sizes.sum()),
        "size_mean": float(sizes.mean()),
        "size_min": int(sizes.min()),
        "size_max": int(sizes.max()),
    }
