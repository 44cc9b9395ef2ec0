"""Divergence and usefulness: one rule each for status, tables, report and diagnosis.

With C classes, chance is 1/C and the loss of a uniform guess log C. An accuracy is at chance up to 0.02 above
1/C (0.2/C if that is less), and clearly above chance from 1/C + (1 - 1/C) / 10 on (from 3/C if that is less).

A run has diverged if one of these holds:

1. The loss of its last evaluated round is not finite.
2. In each of its last 3 evaluated rounds (of all, if there are fewer) the loss is not finite, or it is above
   10 log C while the accuracy is at chance or below half of the run's best.
3. In each of its last 10 evaluated rounds the accuracy is at chance, and in one before it was clearly above.

Multilabel: the accuracy is the mean balanced accuracy over labels, and C = 2. Regression: it is R², which is
at chance up to 0.02 and clearly above from 0.1 on, and the loss of a guess (the mean of the targets) is 1.

A large loss alone is no divergence: a confident model that is often right may have one. Neither are a few
rounds at chance: a healthy run has them where one client with one class trains.

A run never learned if its accuracy was at chance in all evaluated rounds, of which there are at least 10.

Both are judged after a run has ended; neither ends a run, since it might recover.

Usefulness is whether a model is better than chance and than always predicting the majority class. Its numbers
are means of the last rounds: the accuracy of each class, their mean over the K classes with samples (the
balanced accuracy) and the accuracy. A model is useless if

1. its balanced accuracy is at chance, or
2. its balanced accuracy is not clearly above chance, and it is right on one class only (at least 0.9 there,
   at most 0.1 on every other) or its accuracy is at most the share of the majority class.

Predictions are not recorded. With two classes their shares follow from the accuracies a_0, a_1 and a: class 0
has the share p = (a - a_1) / (a_0 - a_1) of the samples and p a_0 + (1 - p)(1 - a_1) of the predictions. With
more classes the share of the majority class is that of the clients' training labels.

Multilabel: the mean of the labels' balanced accuracies is at chance. Regression: R² is.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from statistics import median
from typing import NamedTuple

import numpy as np

from eunoe.core.tasks import MultiLabel, Regression, Task
from eunoe.errors import join_names
from eunoe.metrics.forgetting import known_mean, mean_at_end
from eunoe.store.run_records import Array, Record, RunRecords, numbers, task_of

LAST_LOSSES, LAST_ACCURACIES = 3, 10
# After a divergence, an update is reported if its norm is this many times the median of its round.
OUTLYING = 5.0
# The least accuracy of a class that a model knows, the most of one that it does not, and of one that it has
# not learned at all.
KNOWN, UNKNOWN, NOT_LEARNED = 0.9, 0.1, 0.01
# The share of predictions from which on a class is named.
MOSTLY = 0.8


class Chance(NamedTuple):
    """A model that guesses: accuracies up to `at` are at chance, from `above` on clearly above chance."""

    at: float
    above: float
    loss: float
    metric: str = "accuracy"


REGRESSION_CHANCE = Chance(0.02, 0.1, 1.0, "R²")


@cache
def chance_among(classes: int) -> Chance:
    """Return the chance level of a number of classes."""
    if classes < 2:
        # No accuracy is at chance, and none clearly above.
        return Chance(-math.inf, math.inf, math.inf)
    above = min(1 / classes + (1 - 1 / classes) / 10, 3 / classes)
    return Chance(1 / classes + min(0.02, 0.2 / classes), above, math.log(classes))


def why_diverged(accuracy: Sequence[float], loss: Sequence[float], chance: Chance) -> str:
    """Return why a run has diverged, by its evaluated rounds; a loss that is not known is NaN."""
    if loss and math.isinf(loss[-1]):
        return "its loss is no longer finite"
    if not accuracy:
        return ""
    best, ends = max(accuracy), list(zip(accuracy, loss, strict=True))[-LAST_LOSSES:]
    if all(_has_diverged_loss(now, loss, best, chance) for now, loss in ends):
        return f"its loss ended at {ends[-1][1]:.3g}, more than 10 times that of a uniform guess"
    before, after = accuracy[:-LAST_ACCURACIES], accuracy[-LAST_ACCURACIES:]
    if before and max(before) >= chance.above and all(now <= chance.at for now in after):
        return f"its {chance.metric} fell from {max(before):.1%} to chance and stayed there"
    return ""


def never_learned(accuracy: Sequence[float], chance: Chance) -> bool:
    """Return whether the accuracy was at chance in every evaluated round."""
    return len(accuracy) >= LAST_ACCURACIES and all(now <= chance.at for now in accuracy)


def _has_diverged_loss(accuracy: float, loss: float, best: float, chance: Chance) -> bool:
    """Return whether a round has the loss of a diverged run."""
    large = loss > 10 * chance.loss
    return math.isinf(loss) or (large and (accuracy <= chance.at or accuracy < best / 2))


def _level(section: Record, task: type[Task] | None) -> tuple[float, float] | None:
    """Return accuracy and loss of a section such as `test`; None if nothing was measured."""
    if task is Regression:
        accuracy = -math.inf if section.get("r2") is None else section["r2"]
    elif task is MultiLabel:
        accuracy = known_mean(numbers(section.get("per_class") or ()))
    else:
        accuracy = section.get("accuracy", section.get("token_accuracy"))
    if accuracy is None or math.isnan(accuracy):
        return None
    loss = section.get("loss", math.nan)
    # A loss that is not finite is null in a file.
    return accuracy, math.inf if loss is None or math.isinf(loss) else loss


def _chance(task: type[Task] | None, classes: int) -> Chance:
    return REGRESSION_CHANCE if task is Regression else chance_among(2 if task is MultiLabel else classes)


class Health:
    """Whether the last evaluated round of a run looks healthy; checkpoints before another one are kept."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.good, self._best = True, 0.0
        for record in records:
            self.see(record)

    def see(self, record: Record) -> None:
        """Add the record of the next round; one without an evaluation is ignored."""
        section = record.get("test") or record.get("validation") or {}
        task, classes = task_of(section), len(section.get("per_class") or ())
        if (level := _level(section, task)) is None:
            return
        accuracy, loss = level
        chance, self._best = _chance(task, classes), max(self._best, accuracy)
        fell = self._best >= chance.above and accuracy <= chance.at
        # In memory, a loss that is not finite may be NaN.
        lost = _has_diverged_loss(accuracy, math.inf if math.isnan(loss) else loss, self._best, chance)
        self.good = not (fell or lost)


def find_outlier(records: Iterable[Record]) -> str:
    """Describe the update whose norm was largest against its round's median; empty if none stands out."""
    largest, description = OUTLYING, ""
    for record in records:
        clients, norms = record.get("clients") or (), record.get("update_norms") or ()
        finite = [math.inf if norm is None else norm for norm in norms]
        middle = median(finite) if len(finite) > 2 else 0.0
        for client, norm in zip(clients, finite, strict=False):
            if 0 < middle < math.inf and norm / middle > largest:
                largest = norm / middle
                description = (
                    f"client {client}'s update in round {record['round']} stands out: its norm of {norm:.3g} "
                    f"is {largest:.3g} times the round's median"
                )
    return description


def divergence(run: RunRecords) -> str:
    """Return why a run has diverged, by its status or else by its records; empty if it has not."""
    if run.status["state"] == "diverged":
        return str(run.status.get("reason") or "it diverged")
    return why_diverged(*_levels(run))


def never_learned_warning(run: RunRecords) -> str:
    """Return a warning for a run that never learned; empty for all others."""
    accuracy, _, chance = _levels(run)
    return f"its {chance.metric} never rose above chance" if never_learned(accuracy, chance) else ""


def learned(run: RunRecords) -> bool:
    """Return whether the accuracy was clearly above chance in some round."""
    accuracy, _, chance = _levels(run)
    return max(accuracy, default=0.0) >= chance.above


def _levels(run: RunRecords) -> tuple[list[float], list[float], Chance]:
    """Return accuracies and losses of the evaluated rounds, and the chance level."""
    sections = [record[run.part] for record in run.metrics if record.get(run.part)]
    levels = [level for section in sections if (level := _level(section, run.task)) is not None]
    return [accuracy for accuracy, _ in levels], [loss for _, loss in levels], _chance(run.task, run.classes)


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
