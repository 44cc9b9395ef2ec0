"""When a run has diverged, and when it never learned: one rule for status, tables, report and diagnosis.

With C classes, chance is 1/C and the loss of a uniform guess log C. An accuracy is at chance up to 0.02 above
1/C (0.2/C if that is less), and clearly above it from 1/C + (1 - 1/C) / 10 on (from 3/C if that is less).

A run has diverged if one of these holds:

1. In each of its last 3 evaluated rounds (of all, if there are fewer) the loss is not finite, or it is above
   10 log C while the accuracy is at chance or below half of the run's best.
2. In each of its last 10 evaluated rounds the accuracy is at chance, and in one before it was clearly above.

Of several labels, the accuracy is the mean over labels of balanced accuracy, and a label has two classes. Of
numbers it is R², which is at chance up to 0.02 and clearly above from 0.1 on, and the loss of a guess is 1,
that of their mean.

A large loss alone is no divergence: a model that is sure of itself and often right may have one. Neither are
a few rounds at chance: where one client with one class trains, a healthy run has them.

A run never learned if its accuracy was at chance in every evaluated round, of which there are 10 or more.

Both are judged when a run has ended, never to end it: it might have recovered.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from eunoe.core.tasks import Classification, MultiLabel, Regression, Task
from eunoe.store.main_metric import main_value, task_of
from eunoe.store.run_records import RunRecords

LAST_LOSSES, LAST_ACCURACIES = 3, 10
# How many times the median of its round a norm must be to be named after a divergence.
OUTLYING = 5.0
NEVER = "its {} never rose above chance"


class Guess(NamedTuple):
    """What a model reaches that knows nothing: an accuracy up to `chance`, and this loss.

    From `clearly` on an accuracy is clearly above chance; `what` it is called.
    """

    chance: float
    clearly: float
    loss: float
    what: str = "accuracy"


def guess_of(classes: int) -> Guess | None:
    """A guess among so many classes; None if there is nothing to guess."""
    if classes < 2:
        return None
    clearly = min(1 / classes + (1 - 1 / classes) / 10, 3 / classes)
    return Guess(1 / classes + min(0.02, 0.2 / classes), clearly, math.log(classes))


GUESSED_NUMBERS = Guess(0.02, 0.1, 1.0, "R²")


def why_diverged(accuracy: Sequence[float], loss: Sequence[float], guess: Guess | None) -> str:
    """Why a run has diverged, by its evaluated rounds; empty if it has not.

    A loss is infinite where it was not finite, and NaN where it was not measured.
    """
    if not accuracy or guess is None:
        return ""
    best, ends = max(accuracy), list(zip(accuracy, loss, strict=True))[-LAST_LOSSES:]
    if all(_lost(now, loss, best, guess) for now, loss in ends):
        last = ends[-1][1]
        if math.isinf(last):
            return "its loss is no longer finite"
        return f"its loss ended at {last:.3g}, more than 10 times that of a uniform guess"
    before, after = accuracy[:-LAST_ACCURACIES], accuracy[-LAST_ACCURACIES:]
    if before and max(before) >= guess.clearly and all(now <= guess.chance for now in after):
        return f"its {guess.what} fell from {max(before):.1%} to chance and stayed there"
    return ""


def never_learned(accuracy: Sequence[float], guess: Guess | None) -> bool:
    """Whether the accuracy was at chance in every evaluated round."""
    enough = guess is not None and len(accuracy) >= LAST_ACCURACIES
    return enough and guess is not None and all(now <= guess.chance for now in accuracy)


def _lost(accuracy: float, loss: float, best: float, guess: Guess) -> bool:
    """Whether the loss of a round is that of a run that has diverged, if it stays so."""
    large = loss > 10 * guess.loss
    return math.isinf(loss) or (large and (accuracy <= guess.chance or accuracy < best / 2))


class _Judged(NamedTuple):
    """The numbers of an evaluated round that are judged; a loss that is not finite is null in a file."""

    accuracy: float
    loss: float
    guess: Guess | None


def _judged(part: Mapping[str, Any], task: type[Task] | None) -> _Judged | None:
    """What is judged of the numbers of a place; None if nothing was measured."""
    per_class = part.get("per_class") or ()
    loss = part.get("loss", math.nan)
    loss = math.inf if loss is None or math.isinf(loss) else loss
    if task is Regression:
        return _Judged(main_value(part) if part.get("r2") is not None else -math.inf, loss, GUESSED_NUMBERS)
    if task is MultiLabel:
        known = [value for value in per_class if value is not None and not math.isnan(value)]
        return _Judged(sum(known) / len(known), loss, guess_of(2)) if known else None
    if part.get("accuracy") is None:
        return None
    return _Judged(part["accuracy"], loss, guess_of(len(per_class)))


class Health:
    """Whether the last evaluated round of a run looks like one of a run that has diverged.

    One such round is no divergence; but until a better one comes, the checkpoint before it is kept.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]] = ()) -> None:
        self.good, self._best = True, 0.0
        for record in records:
            self.see(record)

    def see(self, record: Mapping[str, Any]) -> None:
        """Take the record of the next round; one without an evaluation says nothing."""
        part = record.get("test") or record.get("validation") or {}
        found = _judged(part, task_of(part))
        if found is None or found.guess is None:
            return
        accuracy, guess = found.accuracy, found.guess
        self._best = max(self._best, accuracy)
        loss = found.loss if math.isfinite(found.loss) else math.inf
        fell = self._best >= guess.clearly and accuracy <= guess.chance
        self.good = not (fell or _lost(accuracy, loss, self._best, guess))


def outlier(records: Iterable[Mapping[str, Any]]) -> str:
    """Whose change of which round was most unlike the others' of that round; empty if none stands out."""
    most, found = OUTLYING, ""
    for record in records:
        clients, norms = record.get("clients") or (), record.get("update_norms") or ()
        finite = [math.inf if norm is None else norm for norm in norms]
        usual = median(finite) if len(finite) > 2 else 0.0
        for client, norm in zip(clients, finite, strict=False):
            if 0 < usual < math.inf and norm / usual > most:
                most = norm / usual
                found = (
                    f"client {client}'s change in round {record['round']} stands out: its norm of {norm:.3g} "
                    f"is {most:.3g} times the round's median"
                )
    return found


def divergence(run: RunRecords) -> str:
    """Why a run has diverged, by its status or else by its records; empty if it has not."""
    if run.status["state"] == "diverged":
        return str(run.status.get("reason") or "it diverged")
    return why_diverged(*_measured(run))


def warning(run: RunRecords) -> str:
    """What to say of a run that never learned; empty for all others."""
    accuracy, _, guess = _measured(run)
    return NEVER.format(guess.what) if guess is not None and never_learned(accuracy, guess) else ""


def learned(run: RunRecords) -> bool:
    """Whether the accuracy was clearly above chance in some round."""
    accuracy, _, guess = _measured(run)
    return guess is not None and max(accuracy, default=0.0) >= guess.clearly


def _measured(run: RunRecords) -> tuple[list[float], list[float], Guess | None]:
    """Accuracies and losses of the evaluated rounds, and those of a guess."""
    parts = [record[run.part] for record in run.metrics if record.get(run.part)]
    judged = [one for one in (_judged(part, run.task) for part in parts) if one is not None]
    guess = judged[-1].guess if judged else None
    if run.task is Classification:
        guess = guess_of(run.classes)
    return [one.accuracy for one in judged], [one.loss for one in judged], guess
