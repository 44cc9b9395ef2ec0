"""Usefulness: whether a model is better than chance and than always predicting the majority class.

The numbers are means of the last rounds: the accuracy of each class, their mean over the K classes with
samples (the balanced accuracy) and the accuracy. A model is useless if

1. its balanced accuracy is at chance (analysis/divergence.py), or
2. its balanced accuracy is not clearly above chance, and it is right on one class only (at least 0.9 there,
   at most 0.1 on every other) or its accuracy is at most the share of the majority class.

Predictions are not recorded. With two classes their shares follow from the accuracies a_0, a_1 and a: class 0
has the share p = (a - a_1) / (a_0 - a_1) of the samples and p a_0 + (1 - p)(1 - a_1) of the predictions. With
more classes the share of the majority class is that of the clients' training labels.

Multilabel: the mean of the labels' balanced accuracies is at chance. Regression: R² is.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from eunoe.analysis.divergence import REGRESSION_CHANCE, chance_among
from eunoe.core.tasks import MultiLabel, Regression
from eunoe.errors import join_names
from eunoe.metrics.forgetting import mean_at_end
from eunoe.store.run_records import Array, RunRecords

# The least accuracy of a class that a model knows, the most of one that it does not, and of one that it has
# not learned at all.
KNOWN, UNKNOWN, NOT_LEARNED = 0.9, 0.1, 0.01
# The share of predictions from which on a class is named.
MOSTLY = 0.8


class Usefulness(NamedTuple):
    """A sentence for a model that is useless or misses classes, else empty; whether it is useless."""

    sentence: str = ""
    useless: bool = False


def usefulness(run: RunRecords) -> Usefulness:
    """Compare the model of the last rounds with chance and with the majority class, by class."""
    score = mean_at_end(run.curve(run.task.metric), run.rounds, run.last)
    if run.task is Regression:
        useless = score <= REGRESSION_CHANCE.at
        words = f"R² {score:.2f}: no better than predicting the mean of the targets."
        return Usefulness(words, True) if useless else Usefulness()
    history = run.per_class
    if not history.size:
        return Usefulness()
    each = np.array([mean_at_end(column, run.rounds, run.last) for column in history.T])
    if run.task is MultiLabel:
        balanced, chance = float(np.nanmean(each)), chance_among(2)
        useless = balanced <= chance.at
        words = f"Mean balanced accuracy of the labels {balanced:.2f}, no better than chance."
        return Usefulness(words, True) if useless else Usefulness()
    return _of_classes(run, score, each)


def _of_classes(run: RunRecords, accuracy: float, each: Array) -> Usefulness:
    known = np.flatnonzero(np.isfinite(each))
    chance, names = chance_among(len(known)), run.names(len(each))
    if len(known) < 2:
        return Usefulness()
    balanced = float(each[known].mean())
    first, second = sorted(known, key=lambda label: -each[label])[:2]
    dominated = each[first] >= KNOWN and each[second] <= UNKNOWN
    share = predicted = math.nan
    if len(known) == 2 and each[first] - each[second] > 1e-6:
        share = (accuracy - each[second]) / (each[first] - each[second])
        predicted = share * each[first] + (1 - share) * (1 - each[second])
        share = max(share, 1 - share)
    elif run.label_counts is not None and run.label_counts.any():
        share = float(run.label_counts.sum(0).max() / run.label_counts.sum())
    behind = balanced < chance.above and (dominated or accuracy <= share + 1e-9)
    if balanced <= chance.at or behind:
        level = (
            "no better than chance" if balanced <= chance.at else f"where chance gives {1 / len(known):.2f}"
        )
        words = f"balanced accuracy {balanced:.2f}, {level}."
        if not math.isnan(predicted):
            words = f"accuracy {accuracy:.3f}, where the majority class alone gives {share:.3f}; {words}"
            if predicted >= MOSTLY:
                words = f"Predicts class {names[first]!r} for {predicted:.0%} of the samples: {words}"
        elif dominated:
            words = (
                f"Only class {names[first]!r} is predicted well ({each[first]:.0%}, others at most "
                f"{each[second]:.0%}); {words}"
            )
        return Usefulness(words[0].upper() + words[1:], True)
    missing = [repr(names[label]) for label in known if each[label] < NOT_LEARNED]
    return Usefulness(f"Accuracy is below 1% on {join_names(missing)}." if missing else "")


def over_seeds(sentences: Sequence[str]) -> str:
    """Return the sentence of the first seed that has one, and how many seeds have one."""
    nonempty = [sentence for sentence in sentences if sentence]
    if len(sentences) < 2 or not nonempty:
        return nonempty[0] if nonempty else ""
    return f"{nonempty[0][:-1]} ({len(nonempty)} of {len(sentences)} seeds)."
