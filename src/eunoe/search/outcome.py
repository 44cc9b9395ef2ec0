"""Scores of a run with `evaluation.judging`: of its best checkpoint and of its last rounds.

The best checkpoint is the model with the highest score on the first half (`validation`); its scores on the
second half (`judging`) and on the test set had no part in picking it.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from eunoe.analysis.statistics import mean
from eunoe.simulation.hooks import retains
from eunoe.store.run_records import Record, RunRecords

# The model that is evaluated, or the one that clients receive if averaging makes it another.
Model = Literal["", "sent"]
Which = Literal["best", "last"]
SETS = ("validation", "judging", "test")


class Outcome(NamedTuple):
    """Scores of one model of a run by set, for classes and clients too."""

    score: Mapping[str, float]
    balanced: Mapping[str, float]
    worst_class: Mapping[str, float]
    worst_client: Mapping[str, float]


def read_outcome(
    run: RunRecords, which: Which = "best", model: Model = "", until: int | None = None
) -> Outcome:
    """Return the scores of a run's best checkpoint, or the means over its last rounds, up to a round."""
    rounds = [record for record in run.metrics if until is None or record["round"] <= until]
    sections = [record.get("sent", {}) if model else record for record in rounds]
    records = [record for record in sections if record.get("score", {}).get("validation") is not None]
    floor = dict.fromkeys(SETS, run.task.floor)
    if run.status["state"] == "diverged" or not records:
        return Outcome(floor, floor, floor, floor)
    config = run.checked_config
    if which == "best":
        kept = [record for record in records if retains(record, config)]
        chosen = sorted(kept, key=lambda record: -record["score"]["validation"])[:1]
    else:
        chosen = records[-config.evaluation.last :]
        chosen = chosen if all(retains(record, config) for record in chosen) else []
    if not chosen:
        return Outcome(floor, floor, floor, floor)

    def read(value: Any) -> dict[str, float]:
        return {name: mean([value(record, name) for record in chosen]) for name in SETS}

    return Outcome(
        read(lambda record, name: record["score"].get(name, np.nan)),
        read(lambda record, name: _over_classes(record, name, np.nanmean)),
        read(lambda record, name: _over_classes(record, name, np.nanmin)),
        read(_worst_tenth),
    )


def _worst_tenth(record: Record, name: str) -> float:
    value = (record.get(name, {}).get("clients") or {}).get("worst_tenth")
    # Clients may be too few or too small.
    return np.nan if value is None else float(value)


def _over_classes(record: Record, name: str, statistic: Any) -> float:
    values = np.array(record.get(name, {}).get("per_class") or [np.nan], np.float64)
    return float("nan") if np.isnan(values).all() else float(statistic(values))
