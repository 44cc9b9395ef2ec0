"""The standard numbers of a place from sums over its samples.

They are all that a client of a federation sends of its own data, and sums of clients add up. With P
positives, TP and TN of n samples for a label, and errors e = prediction - target for an output:

    accuracy, per_class   right / samples, over all and by class
    f1                    mean over labels of 2 TP / (2 TP + FP + FN); a label that is neither there nor
                          predicted is left out
    per_class             of labels: (TP / P + TN / (n - P)) / 2, balanced accuracy
    subset_accuracy       share of samples with every label right
    hamming_loss          share of all labels of all samples that are wrong
    r2                    mean over outputs of 1 - sum e^2 / sum (y - mean y)^2
    rmse, mae             mean over outputs of sqrt(mean e^2) and mean |e|, in the units of the data
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eunoe.core.tasks import Regression, Task
from eunoe.metrics.balanced_accuracy import balanced_accuracy
from eunoe.metrics.base import Place, PlaceMetric
from eunoe.metrics.forgetting import known_mean

Sums = Mapping[str, NDArray[Any]]


def form_of(task: Task, outputs: int) -> dict[str, int]:
    """The names and lengths of a task's sums."""
    if task.name == "classification":
        return {"samples": outputs, "right": outputs}
    if task.name == "multilabel":
        by_label = dict.fromkeys(("positives", "true_positives", "true_negatives"), outputs)
        return {"samples": 1, "exact": 1, **by_label}
    by_output = dict.fromkeys(("targets", "squared_targets", "squared_errors", "absolute_errors"), outputs)
    return {"samples": 1, **by_output}


def sums_of(place: Place) -> dict[str, NDArray[Any]]:
    """The sums of a place."""
    labels, predicted, count = place.labels, place.predictions.predicted, place.class_count
    if place.task.name == "classification":
        right = labels[predicted == labels]
        return {"samples": np.bincount(labels, minlength=count), "right": np.bincount(right, minlength=count)}
    samples = np.array([len(labels)])
    if place.task.name == "multilabel":
        there, said = labels > 0, predicted > 0
        return {
            "samples": samples,
            "exact": np.array([(there == said).all(axis=1).sum()]),
            "positives": there.sum(axis=0),
            "true_positives": (there & said).sum(axis=0),
            "true_negatives": (~there & ~said).sum(axis=0),
        }
    targets = labels.astype(np.float64)
    errors = predicted - targets
    return {
        "samples": samples,
        "targets": targets.sum(axis=0),
        "squared_targets": (targets**2).sum(axis=0),
        "squared_errors": (errors**2).sum(axis=0),
        "absolute_errors": np.abs(errors).sum(axis=0),
    }


def numbers_of(task: Task, sums: Sums) -> dict[str, Any]:
    """The standard numbers of a task from sums of one or more samples."""
    if task.name == "classification":
        right, each = sums["right"], sums["samples"]
        by_class = np.where(each > 0, right / np.maximum(each, 1), np.nan)
        return {"accuracy": float(right.sum() / each.sum()), "per_class": by_class.tolist()}
    samples = int(sums["samples"][0])
    if task.name == "multilabel":
        there, hits, misses = (sums[name] for name in ("positives", "true_positives", "true_negatives"))
        # TP + FP + P, which is 2 TP + FP + FN.
        whole = hits + (samples - there - misses) + there
        return {
            "f1": float(known_mean(np.where(whole > 0, 2 * hits / np.maximum(whole, 1), np.nan))),
            "subset_accuracy": float(sums["exact"][0] / samples),
            "hamming_loss": float(1 - (hits + misses).sum() / (samples * len(hits))),
            "per_class": balanced_accuracy(hits, there, misses, samples).tolist(),
        }
    assert isinstance(task, Regression)
    varied = sums["squared_targets"] - sums["targets"] ** 2 / samples
    # Of equal targets only rounding is left.
    known = varied > 1e-12 * np.maximum(sums["squared_targets"], 1e-30)
    explained = np.where(known, 1 - sums["squared_errors"] / np.where(known, varied, 1.0), np.nan)
    std = np.array(task.std)
    return {
        "r2": float(known_mean(explained)),
        "rmse": float((std * np.sqrt(sums["squared_errors"] / samples)).mean()),
        "mae": float((std * sums["absolute_errors"] / samples).mean()),
    }


def checked_sums(task: Task, outputs: int, given: Mapping[str, Any], most: int) -> dict[str, NDArray[Any]]:
    """The sums that somebody else sent, if those of at most so many samples can be so; else a ValueError."""
    whole = task.name != "regression"
    found = {}
    for name, size in form_of(task, outputs).items():
        kind = np.int64 if whole or name == "samples" else np.float64
        found[name] = np.array(given[name], kind)
        if found[name].shape != (size,):
            raise ValueError(f"it has counts of {found[name].shape} and not of ({size},): {name}")
        if not np.isfinite(found[name]).all() or (name != "targets" and (found[name] < 0).any()):
            raise ValueError("its counts are impossible")
    samples = found["samples"]
    # The bound keeps the sums over clients and classes from overflowing.
    possible = not (samples > most).any()
    if task.name == "classification":
        possible = possible and not (found["right"] > samples).any()
    if task.name == "multilabel":
        there, hits, misses = (found[name] for name in ("positives", "true_positives", "true_negatives"))
        possible = possible and not (found["exact"] > samples).any() and not (there > samples).any()
        possible = possible and not (hits > there).any() and not (misses > samples - there).any()
    if not possible:
        raise ValueError("its counts are impossible")
    return found


def score_of(task: Task, sums: Sums) -> float:
    """What clients are compared by: accuracy, the share of labels that are right, or explained variance."""
    if task.name == "classification":
        return float(sums["right"].sum() / sums["samples"].sum())
    samples = int(sums["samples"][0])
    if task.name == "multilabel":
        hits = sums["true_positives"] + sums["true_negatives"]
        return float(hits.sum() / (samples * len(hits)))
    return float(1 - sums["squared_errors"].mean() / samples)


class SumMetric(PlaceMetric):
    """A standard number of a place."""

    number: ClassVar[str]

    def measure(self, place: Place) -> float:
        return float(numbers_of(place.task, sums_of(place))[self.number])
