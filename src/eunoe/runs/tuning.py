"""Search for the best value of one hyper-parameter."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eunoe.errors import InputError
from eunoe.runs.run import Run
from eunoe.runs.sweep import OnSweepRound, plan, sweep


def search(
    values: Mapping[str, Any],
    path: str,
    start: float,
    seeds: Sequence[int],
    out: Path,
    jobs: int = 1,
    on_round: OnSweepRound = lambda planned, record: None,
) -> tuple[float, dict[float, float]]:
    """Search for the best value of a hyper-parameter: factors of 10 until the best is bracketed, then of 2.

    The best has the fewest rounds to `stop.target` if that is set, otherwise the highest final accuracy;
    both on validation, never on the test set. Returns the best value and the score of each one tried.
    """
    if not 0 < start < math.inf:
        raise InputError(f"a search by factors starts from a number above 0, not {start:g}")
    scores: dict[float, float] = {}

    def score(tried: Sequence[float]) -> None:
        new = [value for value in dict.fromkeys(tried) if value not in scores]
        # An invalid value must fail before the others are run.
        plan(values, {path: new}, seeds, out)
        for value in new:
            runs = sweep(values, {path: [value]}, seeds, out, jobs, on_round)
            scores[value] = sum(_score(run) for run in runs) / len(runs)

    for factor in (10.0, 2.0):
        best = max(scores, key=scores.__getitem__) if scores else start
        score([best, _round(best / factor), _round(best * factor)])
        for _ in range(6):
            top = max(scores, key=scores.__getitem__)
            score([_round(top / factor), _round(top * factor)])
            if max(scores, key=scores.__getitem__) == top:
                break
    return max(scores, key=scores.__getitem__), dict(sorted(scores.items()))


def _score(run: Run) -> float:
    if run.status["state"] == "diverged":
        return float("-inf")
    if run.config.stop.target is not None:
        rounds, values = run.series("validation.accuracy")
        reached = rounds[values >= run.config.stop.target]
        # Runs that never reach the target rank after all that do, by accuracy.
        return -float(reached[0]) if len(reached) else -1e6 + run.final("validation.accuracy")
    accuracy = run.final("validation.accuracy")
    if math.isnan(accuracy):
        raise InputError("a search needs the accuracy on validation data, and these runs have none")
    return accuracy


def _round(value: float) -> float:
    return float(f"{value:.6g}")
