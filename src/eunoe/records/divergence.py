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
from collections.abc import Sequence

from eunoe.records.reader import RunRecords

LAST_LOSSES, LAST_ACCURACIES = 3, 10
NEVER = "its accuracy never rose above chance"


def why_diverged(accuracy: Sequence[float], loss: Sequence[float], classes: int) -> str:
    """Why a run has diverged, by its evaluated rounds; empty if it has not.

    A loss is infinite where it was not finite, and NaN where it was not measured.
    """
    if not accuracy or classes < 2:
        return ""
    bound, best = 10 * math.log(classes), max(accuracy)
    clearly = min(1 / classes + (1 - 1 / classes) / 10, 3 / classes)
    ends = list(zip(accuracy, loss, strict=True))[-LAST_LOSSES:]
    if all(
        math.isinf(lost) or (lost > bound and (at_chance(now, classes) or now < best / 2))
        for now, lost in ends
    ):
        last = ends[-1][1]
        if math.isinf(last):
            return "its loss is no longer finite"
        return f"its loss ended at {last:.3g}, more than 10 times that of a uniform guess"
    before, after = accuracy[:-LAST_ACCURACIES], accuracy[-LAST_ACCURACIES:]
    if before and max(before) >= clearly and all(at_chance(now, classes) for now in after):
        return f"its accuracy fell from {max(before):.1%} to chance and stayed there"
    return ""


def never_learned(accuracy: Sequence[float], classes: int) -> bool:
    """Whether the accuracy was at chance in every evaluated round."""
    enough = classes > 1 and len(accuracy) >= LAST_ACCURACIES
    return enough and all(at_chance(now, classes) for now in accuracy)


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


def _measured(run: RunRecords) -> tuple[list[float], list[float]]:
    """Accuracies and losses of the evaluated rounds; in a file a loss that is not finite is null."""
    records = [record[run.part] for record in run.measured if record[run.part].get("accuracy") is not None]
    losses = [one.get("loss", math.nan) for one in records]
    return [one["accuracy"] for one in records], [math.inf if loss is None else loss for loss in losses]
