"""When a run has diverged, and when it never learned: one rule for status, tables, report and diagnosis.

With C classes, chance is 1/C and the loss of a uniform guess log C. An accuracy is at chance up to 0.02 above
1/C (0.2/C if that is less), and clearly above it from 1/C + (1 - 1/C) / 10 on (from 3/C if that is less).

A run has diverged if one of these holds:

1. In each of its last 3 evaluated rounds (of all, if there are fewer) the loss is not finite, or it is above
   10 log C while the accuracy is at chance or below half of the run's best.
2. In each of its last 10 evaluated rounds the accuracy is at chance, and in one before it was clearly above.

A large loss alone is no divergence: a model that is sure of itself and often right may have one. Neither are
a few rounds at chance: where one client with one class trains, a healthy run has them.

A run never learned if its accuracy was at chance in every evaluated round, of which there are 10 or more.

Both are judged when a run has ended, never to end it: it might have recovered.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from eunoe.records.reader import RunRecords

LAST_LOSSES, LAST_ACCURACIES = 3, 10
# How many times the median of its round a norm must be to be named after a divergence.
OUTLYING = 5.0
NEVER = "its accuracy never rose above chance"


def why_diverged(accuracy: Sequence[float], loss: Sequence[float], classes: int) -> str:
    """Why a run has diverged, by its evaluated rounds; empty if it has not.

    A loss is infinite where it was not finite, and NaN where it was not measured.
    """
    if not accuracy or classes < 2:
        return ""
    best, ends = max(accuracy), list(zip(accuracy, loss, strict=True))[-LAST_LOSSES:]
    if all(_lost(now, loss, best, classes) for now, loss in ends):
        last = ends[-1][1]
        if math.isinf(last):
            return "its loss is no longer finite"
        return f"its loss ended at {last:.3g}, more than 10 times that of a uniform guess"
    before, after = accuracy[:-LAST_ACCURACIES], accuracy[-LAST_ACCURACIES:]
    if before and max(before) >= _clearly(classes) and all(at_chance(now, classes) for now in after):
        return f"its accuracy fell from {max(before):.1%} to chance and stayed there"
    return ""


def never_learned(accuracy: Sequence[float], classes: int) -> bool:
    """Whether the accuracy was at chance in every evaluated round."""
    enough = classes > 1 and len(accuracy) >= LAST_ACCURACIES
    return enough and all(at_chance(now, classes) for now in accuracy)


def _lost(accuracy: float, loss: float, best: float, classes: int) -> bool:
    """Whether the loss of a round is that of a run that has diverged, if it stays so."""
    large = loss > 10 * math.log(classes)
    return math.isinf(loss) or (large and (at_chance(accuracy, classes) or accuracy < best / 2))


def _clearly(classes: int) -> float:
    """An accuracy that is clearly above chance."""
    return min(1 / classes + (1 - 1 / classes) / 10, 3 / classes)


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
        accuracy, loss, classes = part.get("accuracy"), part.get("loss"), len(part.get("per_class") or ())
        if accuracy is None or classes < 2:
            return
        self._best = max(self._best, accuracy)
        loss = math.inf if loss is None or not math.isfinite(loss) else loss
        fell = self._best >= _clearly(classes) and at_chance(accuracy, classes)
        self.good = not (fell or _lost(accuracy, loss, self._best, classes))


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


def at_chance(accuracy: float, classes: int) -> bool:
    """Whether an accuracy is no better than a guess."""
    return accuracy <= 1 / classes + min(0.02, 0.2 / classes)


def divergence(run: RunRecords) -> str:
    """Why a run has diverged, by its status or else by its records; empty if it has not."""
    if run.status["state"] == "diverged":
        return str(run.status.get("reason") or "it diverged")
    return why_diverged(*_measured(run), run.classes)


def warning(run: RunRecords) -> str:
    """What to say of a run that never learned; empty for all others."""
    return NEVER if never_learned(_measured(run)[0], run.classes) else ""


def learned(run: RunRecords) -> bool:
    """Whether the accuracy was clearly above chance in some round."""
    return max(_measured(run)[0], default=0.0) >= _clearly(run.classes)


def _measured(run: RunRecords) -> tuple[list[float], list[float]]:
    """Accuracies and losses of the evaluated rounds; in a file a loss that is not finite is null."""
    records = [record[run.part] for record in run.measured if record[run.part].get("accuracy") is not None]
    losses = [one.get("loss", math.nan) for one in records]
    return [one["accuracy"] for one in records], [math.inf if loss is None else loss for loss in losses]
