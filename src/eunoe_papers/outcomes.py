"""Read the quantities of a run by round from its records."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eunoe.metrics import forgetting
from eunoe.store.run_records import Array, RunRecords, numbers
from eunoe_papers.experiment import PlannedRun, Scale
from eunoe_papers.measures import Measure, Outcome
from eunoe_papers.store import FoundRun

# Quantities that are recorded as such.
_PATHS = {
    "validation": "validation.accuracy",
    "past": "phases.past",
    "present": "phases.present",
    "phase_forgetting": "phases.forgetting",
}


@dataclass(frozen=True)
class Reading:
    """The value of one run for one cell; infinity if a target was not reached."""

    planned: PlannedRun
    outcome: Outcome
    measure: Measure
    value: float

    @property
    def length(self) -> tuple[int, int]:
        """The last recorded round, and the round that the run would end with."""
        config, outcome = self.planned.values, self.outcome
        planned = int(config["rounds"])
        if outcome.diverged:
            return planned, planned
        target = config.get("stop", {}).get("test_target")
        enough = target is not None and any(value >= target for value in outcome.of("accuracy").values())
        return outcome.rounds, outcome.rounds if enough else planned

    def counts(self, scale: Scale, stand_in: bool) -> bool:
        """Return whether the value can be judged; a run shorter than planned counts at full scale only."""
        known = self.outcome.diverged or not math.isnan(self.value)
        rounds, planned = self.length
        return known and (scale == "full" or rounds >= planned) and (stand_in or not self.planned.stand_in)


def read_outcome(arm_run: FoundRun) -> Outcome:
    """Read the values of a run by quantity and round; empty if it diverged or has no round yet."""
    config, run = arm_run.planned.values, arm_run.run
    if run.records.status["state"] == "diverged":
        return Outcome(config, {}, diverged=True)
    if not run.records.metrics:
        return Outcome(config, {})
    series = series_of(run.records)
    last = int(run.records.metrics[-1]["round"])
    return Outcome(config, {**series, **{name: {last: value} for name, value in run.after.items()}})


def series_of(run: RunRecords) -> dict[str, dict[int, float]]:
    """Return the quantities that a run recorded, by round."""
    series: dict[str, dict[int, float]] = {
        "accuracy": _by_round(run.rounds, run.curve("accuracy")),
        "round_forgetting": _by_round(run.rounds, run.forgetting("round")),
        "megabytes_up": {
            int(record["round"]): record["bytes_up"] / len(record["clients"]) / 1e6
            for record in run.metrics
            if record.get("bytes_up") and record.get("clients")
        },
        **{quantity: _by_round(*run.series(path)) for quantity, path in _PATHS.items()},
    }
    for probe in run.probes:
        read = _PROBES.get(str(probe["probe"]))
        for quantity, value in (read(probe, run) if read else {}).items():
            series.setdefault(quantity, {})[int(probe["round"])] = value
    return series


def _by_round(rounds: Iterable[int], values: Array) -> dict[int, float]:
    return dict(zip(map(int, rounds), values.tolist(), strict=True))


def _client_matrix(probe: Mapping[str, Any], run: RunRecords) -> dict[str, float]:
    lost = forgetting.client_forgetting(probe["start"], probe["after"], probe["models"], probe["data"])
    own = np.equal.outer(probe["models"], probe["data"])
    return {
        "local_forgetting": float(forgetting.known_mean(lost.by_model)),
        "own_gain": float(forgetting.known_mean(-lost.matrix[own])),
    }


def _local_per_class(probe: Mapping[str, Any], run: RunRecords) -> dict[str, float]:
    lost = forgetting.knowledge_lost(probe["start"], probe["local"], probe["merged"])
    values = {"lost_locally": lost.local, "lost_in_aggregation": lost.aggregation}
    if probe.get("loss"):
        rise = forgetting.known_mean(probe["loss"]["local"]) - probe["loss"]["start"]
        values["local_loss_rise"] = float(rise)
    if probe.get("counts"):
        # Transposed, so that counts are shares of the client's most frequent class.
        shares = forgetting.count_shares(numbers(probe["counts"]).T)
        values["count_accuracy"] = forgetting.correlation(shares, numbers(probe["local"]).T)
    return values


def _probability(probe: Mapping[str, Any], run: RunRecords) -> dict[str, float]:
    most = None if run.label_counts is None else run.label_counts.max(axis=0)
    shares = forgetting.count_shares(numbers(probe["counts"]), most)
    return {"count_probability": forgetting.correlation(shares, numbers(probe["probability"]))}


_PROBES = {"client_matrix": _client_matrix, "local_per_class": _local_per_class, "probability": _probability}
