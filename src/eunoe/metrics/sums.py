"""Standard metrics from sums over samples.

The sums are all that a client of a federation sends of its own data, and sums of clients add up. With P
positives, TP and TN of n samples for a label, and errors e = prediction - target for an output:

    accuracy, per_class   right / samples, over all and by class
    f1                    mean over labels of 2 TP / (2 TP + FP + FN), leaving out labels that are neither
                          present nor predicted
    per_class             of labels: (TP / P + TN / (n - P)) / 2, balanced accuracy
    subset_accuracy       fraction of samples with every label right
    hamming_loss          fraction of all labels of all samples that are wrong
    r2                    mean over outputs of 1 - sum e^2 / sum (y - mean y)^2
    token_accuracy        right / tokens
    rmse, mae             mean over outputs of sqrt(mean e^2) and mean |e|, in the units of the data
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eunoe.core.tasks import Regression, Task
from eunoe.metrics.forgetting import known_mean

if TYPE_CHECKING:
    from eunoe.metrics.base import Evaluation

Sums = Mapping[str, NDArray[Any]]


def sum_lengths(task: Task, outputs: int) -> dict[str, int]:
    """Return the names and lengths of a task's sums."""
    if task.name == "classification":
        return {"samples": outputs, "right": outputs}
    if task.name == "multilabel":
        by_label = dict.fromkeys(("positives", "true_positives", "true_negatives"), outputs)
        return {"samples": 1, "exact": 1, **by_label}
    if task.name == "language_model":
        return {"samples": 1, "tokens": 1, "right": 1}
    by_output = dict.fromkeys(("targets", "squared_targets", "squared_errors", "absolute_errors"), outputs)
    return {"samples": 1, **by_output}


def compute_sums(evaluation: "Evaluation") -> dict[str, NDArray[Any]]:
    """Return the sums of an evaluation."""
    labels, predicted, count = evaluation.labels, evaluation.predictions.predicted, evaluation.class_count
    if evaluation.task.name == "classification":
        right = labels[predicted == labels]
        return {"samples": np.bincount(labels, minlength=count), "right": np.bincount(right, minlength=count)}
    samples = np.array([len(labels)])
    if evaluation.task.name == "multilabel":
        present, positive = labels > 0, predicted > 0
        return {
            "samples": samples,
            "exact": np.array([(present == positive).all(axis=1).sum()]),
            "positives": present.sum(axis=0),
            "true_positives": (present & positive).sum(axis=0),
            "true_negatives": (~present & ~positive).sum(axis=0),
        }
    if evaluation.task.name == "language_model":
        right = np.array([(labels == predicted).sum()])
        return {"samples": samples, "tokens": np.array([labels.size]), "right": right}
    targets = labels.astype(np.float64)
    errors = predicted - targets
    return {
        "samples": samples,
        "targets": targets.sum(axis=0),
        "squared_targets": (targets**2).sum(axis=0),
        "squared_errors": (errors**2).sum(axis=0),
        "absolute_errors": np.abs(errors).sum(axis=0),
    }


def metrics_from_sums(task: Task, sums: Sums) -> dict[str, Any]:
    """Return the standard metrics of a task from sums over one or more samples."""
    if task.name == "classification":
        right, each = sums["right"], sums["samples"]
        by_class = np.where(each > 0, right / np.maximum(each, 1), np.nan)
        return {"accuracy": float(right.sum() / each.sum()), "per_class": by_class.tolist()}
    if task.name == "language_model":
        return {"token_accuracy": score_from_sums(task, sums)}
    samples = int(sums["samples"][0])
    if task.name == "multilabel":
        positives, hits, misses = (sums[name] for name in ("positives", "true_positives", "true_negatives"))
        present = np.stack([positives, samples - positives])
        # Sensitivity and specificity: a label that is never or always predicted has a mean of 0.5.
        rates = np.where(present > 0, np.stack([hits, misses]) / np.maximum(present, 1), np.nan)
        # TP + FP + P, which is 2 TP + FP + FN.
        whole = hits + (samples - positives - misses) + positives
        return {
            "f1": float(known_mean(np.where(whole > 0, 2 * hits / np.maximum(whole, 1), np.nan))),
            "subset_accuracy": float(sums["exact"][0] / samples),
            "hamming_loss": float(1 - (hits + misses).sum() / (samples * len(hits))),
            "per_class": rates.mean(axis=0).tolist(),
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


def validate_sums(task: Task, outputs: int, sums: Mapping[str, Any], most: int) -> dict[str, NDArray[Any]]:
    """Return sums that a client sent as arrays; ValueError if at most `most` samples cannot have them."""
    whole = task.name != "regression"
    checked = {}
    for name, size in sum_lengths(task, outputs).items():
        kind = np.int64 if whole or name == "samples" else np.float64
        checked[name] = np.array(sums[name], kind)
        if checked[name].shape != (size,):
            raise ValueError(f"{name} has shape {checked[name].shape} instead of ({size},)")
        if not np.isfinite(checked[name]).all() or (name != "targets" and (checked[name] < 0).any()):
            raise ValueError("its counts are impossible")
    samples = checked["samples"]
    # The bound keeps the sums over clients and classes from overflowing.
    possible = not (samples > most).any()
    if task.name == "classification":
        possible = possible and not (checked["right"] > samples).any()
    if task.name == "language_model":
        possible = possible and not (checked["right"] > checked["tokens"]).any()
        possible = possible and not (checked["tokens"] > 2**20 * samples).any()
    if task.name == "multilabel":
        names = ("positives", "true_positives", "true_negatives")
        positives, hits, misses = (checked[name] for name in names)
        possible = possible and not (checked["exact"] > samples).any() and not (positives > samples).any()
        possible = possible and not (hits > positives).any() and not (misses > samples - positives).any()
    if not possible:
        raise ValueError("its counts are impossible")
    return checked


def score_from_sums(task: Task, sums: Sums) -> float:
    """Return what clients are compared by: accuracy, fraction of correct labels, or explained variance."""
    if task.name == "classification":
        return float(sums["right"].sum() / sums["samples"].sum())
    if task.name == "language_model":
        return float(sums["right"][0] / sums["tokens"][0])
    samples = int(sums["samples"][0])
    if task.name == "multilabel":
        hits = sums["true_positives"] + sums["true_negatives"]
        return float(hits.sum() / (samples * len(hits)))
    return float(1 - sums["squared_errors"].mean() / samples)
