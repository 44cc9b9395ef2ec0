"""Balanced accuracy of labels that a sample may have at once, as pure functions."""

import numpy as np
from numpy.typing import ArrayLike

from eunoe.metrics.forgetting import Array


def per_label_accuracy(predicted: ArrayLike, labels: ArrayLike) -> Array:
    """Balanced accuracy of each label, [labels], from 0 and 1 [samples, labels].

    It is the mean of two shares: of the samples with the label and of those without it, that were predicted
    right. So a label that is never or always predicted has 0.5, however rare it is. NaN for a label that all
    samples have, or none.
    """
    predicted, labels = np.asarray(predicted) > 0, np.asarray(labels) > 0
    return balanced_accuracy(
        (predicted & labels).sum(axis=0), labels.sum(axis=0), (~predicted & ~labels).sum(axis=0), len(labels)
    )


def balanced_accuracy(
    true_positives: ArrayLike, positives: ArrayLike, true_negatives: ArrayLike, samples: ArrayLike
) -> Array:
    """The same from counts of each label."""
    right = np.stack([np.asarray(true_positives, np.float64), np.asarray(true_negatives, np.float64)])
    there = np.asarray(positives, np.float64)
    count = np.stack([there, np.asarray(samples, np.float64) - there])
    shares: Array = np.where(count > 0, right / np.maximum(count, 1), np.nan).mean(axis=0)
    return shares
