"""Divergence: one rule for status, tables, report and diagnosis.

With C classes, chance is 1/C and the loss of a uniform guess log C. An accuracy is at chance up to 0.02 above
1/C (0.2/C if that is less), and clearly above chance from 1/C + (1 - 1/C) / 10 on (from 3/C if that is less).

A run has diverged if one of these holds:

1. In each of its last 3 evaluated rounds (of all, if there are fewer) the loss is not finite, or it is above
   10 log C while the accuracy is at chance or below half of the run's best.
2. In each of its last 10 evaluated rounds the accuracy is at chance, and in one before it was clearly above.

Multilabel: the accuracy is the mean balanced accuracy over labels, and C = 2. Regression: it is R², which is
at chance up to 0.02 and clearly above from 0.1 on, and the loss of a guess (the mean of the targets) is 1.

A large loss alone is no divergence: a confident model that is often right may have one. Neither are a few
rounds at chance: a healthy run has them where one client with one class trains.

A run never learned if its accuracy was at chance in all evaluated rounds, of which there are at least 10.

Both are judged after a run has ended; neither ends a run, since it might recover.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from eunoe.core.tasks import Classification, MultiLabel, Regression, Task
from eunoe.store.run_records import RunRecords, task_of

LAST_LOSSES, LAST_ACCURACIES = 3, 10
# An update whose norm is this many times the median of its round is named after a divergence.
OUTLYING = 5.0


class Chance(NamedTuple):
    """The level of a model that guesses: accuracies up to `at` are at chance, from `above` on clearly above.

    `loss` is that of a guess, and `metric` the name of the accuracy.
    """

    at: float
    above: float
    loss: float
    metric: str = "accuracy"


def chance_among(classes: int) -> Chance | None:
    """Return the chance level of a number of classes; None below two classes."""
    if classes < 2:
        return None
    above = min(1 / classes + (1 - 1 / classes) / 10, 3 / classes)
    return Chance(1 / classes + min(0.02, 0.2 / classes), above, math.log(classes))


REGRESSION_CHANCE = Chance(0.02, 0.1, 1.0, "R²")


def why_diverged(accuracy: Sequence[float], loss: Sequence[float], chance: Chance | None) -> str:
    """Return why a run has diverged, by its evaluated rounds; empty if it has not.

    A loss is infinite where it was not finite, and NaN where it was not measured.
    """
    if not accuracy or chance is None:
        return ""
    best, ends = max(accuracy), list(zip(accuracy, loss, strict=True))[-LAST_LOSSES:]
    if all(_has_diverged_loss(now, loss, best, chance) for now, loss in ends):
        last = ends[-1][1]
        if math.isinf(last):
            return "its loss is no longer finite"
        return f"its loss ended at {last:.3g}, more than 10 times that of a uniform guess"
    before, after = accuracy[:-LAST_ACCURACIES], accuracy[-LAST_ACCURACIES:]
    if before and max(before) >= chance.above and all(now <= chance.at for now in after):
        return f"its {chance.metric} fell from {max(before):.1%} to chance and stayed there"
    return ""


def never_learned(accuracy: Sequence[float], chance: Chance | None) -> bool:
    """Return whether the accuracy was at chance in every evaluated round."""
    enough = chance is not None and len(accuracy) >= LAST_ACCURACIES
    return enough and chance is not None and all(now <= chance.at for now in accuracy)


def _has_diverged_loss(accuracy: float, loss: float, best: float, chance: Chance) -> bool:
    """Return whether a round has the loss of a diverged run."""
    large = loss > 10 * chance.loss
    return math.isinf(loss) or (large and (accuracy <= chance.at or accuracy < best / 2))


class _Level(NamedTuple):
    """Accuracy, loss and chance level of an evaluated round."""

    accuracy: float
    loss: float
    chance: Chance | None


def _level(section: Mapping[str, Any], task: type[Task] | None) -> _Level | None:
    """Return the level of a section such as `test`; None if nothing was measured."""
    per_class = section.get("per_class") or ()
    # A loss that is not finite is null in a file.
    loss = section.get("loss", math.nan)
    loss = math.inf if loss is None or math.isinf(loss) else loss
    if task is Regression:
        return _Level(section["r2"] if section.get("r2") is not None else -math.inf, loss, REGRESSION_CHANCE)
    if task is MultiLabel:
        known = [value for value in per_class if value is not None and not math.isnan(value)]
        return _Level(sum(known) / len(known), loss, chance_among(2)) if known else None
    if section.get("accuracy") is None:
        return None
    return _Level(section["accuracy"], loss, chance_among(len(per_class)))


class Health:
    """Whether the last evaluated round of a run looks like one of a diverged run.

    One such round is no divergence, but the checkpoint before it is kept until a better round comes.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]] = ()) -> None:
        self.good, self._best = True, 0.0
        for record in records:
            self.see(record)

    def see(self, record: Mapping[str, Any]) -> None:
        """Add the record of the next round; one without an evaluation is ignored."""
        section = record.get("test") or record.get("validation") or {}
        level = _level(section, task_of(section))
        if level is None or level.chance is None:
            return
        accuracy, chance = level.accuracy, level.chance
        self._best = max(self._best, accuracy)
        loss = level.loss if math.isfinite(level.loss) else math.inf
        fell = self._best >= chance.above and accuracy <= chance.at
        self.good = not (fell or _has_diverged_loss(accuracy, loss, self._best, chance))


def find_outlier(records: Iterable[Mapping[str, Any]]) -> str:
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
    if chance is None or not never_learned(accuracy, chance):
        return ""
    return f"its {chance.metric} never rose above chance"


def learned(run: RunRecords) -> bool:
    """Return whether the accuracy was clearly above chance in some round."""
    accuracy, _, chance = _levels(run)
    return chance is not None and max(accuracy, default=0.0) >= chance.above


def _levels(run: RunRecords) -> tuple[list[float], list[float], Chance | None]:
    """Return accuracies and losses of the evaluated rounds, and the chance level."""
    sections = [record[run.part] for record in run.metrics if record.get(run.part)]
    levels = [level for level in (_level(section, run.task) for section in sections) if level is not None]
    chance = levels[-1].chance if levels else None
    if run.task is Classification:
        chance = chance_among(run.classes)
    return [level.accuracy for level in levels], [level.loss for level in levels], chance
