"""Statistics of a partition, from the label counts [clients, classes]."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from eunoe.data.checks import Integers

# Clients count as alike below this mean distance from the overall mix, or below this multiple of the distance
# expected by chance.
ALIKE, CHANCE = 0.2, 1.25


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


def alike(counts: Integers) -> bool:
    """Return whether the clients' class mixes differ little, or not much more than by chance."""
    distance = summarize(counts).distance_mean
    return distance < max(ALIKE, CHANCE * distance_by_chance(counts))


def distance_by_chance(counts: Integers) -> float:
    """Return the expected mean distance of clients of these sizes that all draw from the same mix."""
    # A share p of n samples is off by sqrt(2 p (1 - p) / (pi n)) on average, by the normal approximation.
    sizes, shares = counts.sum(1), counts.sum(0) / max(1, counts.sum())
    off = np.sqrt(2 * shares * (1 - shares) / np.pi).sum() / 2
    return float(np.mean(off / np.sqrt(sizes[sizes > 0])))


def summarize(counts: Integers, sizes: Integers | None = None) -> PartitionNumbers:
    """Compute means and extremes over the clients that have samples, from label counts [clients, classes].

    Multilabel samples have any number of labels, so their `sizes` do not follow from the counts.
    """
    sizes = counts.sum(1) if sizes is None else sizes
    counts = counts[counts.sum(1) > 0]
    classes, shares = (counts > 0).sum(1), counts / counts.sum(1, keepdims=True)
    bits = np.log2(shares, out=np.zeros_like(shares), where=counts > 0)
    distance = np.abs(shares - counts.sum(0) / counts.sum()).sum(1) / 2
    return PartitionNumbers(
        **size_numbers(sizes[sizes > 0]),
        classes_mean=float(classes.mean()),
        classes_min=int(classes.min()),
        classes_max=int(classes.max()),
        entropy_mean=float(np.abs((shares * bits).sum(1)).mean()),
        distance_mean=float(distance.mean()),
        single_class_share=float((classes == 1).mean()),
    )


def size_numbers(sizes: Integers) -> dict[str, Any]:
    """Return the part of `PartitionNumbers` that depends only on the clients' sizes."""
    return {
        "clients": len(sizes),
        "samples": int(sizes.sum()),
        "size_mean": float(sizes.mean()),
        "size_min": int(sizes.min()),
        "size_max": int(sizes.max()),
    }
