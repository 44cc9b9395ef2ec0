"""From the records of a run to the quantities by round that the exhibits' measures read."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from eunoe.metrics import forgetting
from eunoe.papers.found import FoundRun
from eunoe.papers.measures import Outcome
from eunoe.store.run_records import Array, RunRecords, numbers


def outcome_of(found: FoundRun) -> Outcome:
    """The values of a run by quantity and round; empty if it diverged or has no round yet."""
    config, run = found.planned.values, found.run
    if run.records.status["state"] == "diverged":
        return Outcome(config, {}, diverged=True)
    if not run.records.metrics:
        return Outcome(config, {})
    series = series_of(run.records)
    last = int(run.records.metrics[-1]["round"])
    return Outcome(config, {**series, **{name: {last: value} for name, value in run.after.items()}})


def series_of(run: RunRecords) -> dict[str, dict[int, float]]:
    """The quantities that a run recorded, by round."""
    rounds = run.rounds
    series: dict[str, dict[int, float]] = {
        "accuracy": _by_round(rounds, run.curve("accuracy")),
        "round_forgetting": _by_round(rounds, run.forgetting("round")),
        "validation": {
            int(record["round"]): float(record["validation"]["accuracy"])
            for record in run.metrics
            if (record.get("validation") or {}).get("accuracy") is not None
        },
        "megabytes_up": {
            int(record["round"]): record["bytes_up"] / len(record["clients"]) / 1e6
            for record in run.metrics
            if record.get("bytes_up") and record.get("clients")
        },
    }
    for quantity, name in {"past": "past", "present": "present", "phase_forgetting": "forgetting"}.items():
        known = {int(r["round"]): (r.get("phases") or {}).get(name) for r in run.metrics}
        series[quantity] = {round: float(value) for round, value in known.items() if value is not None}
    for probe in run.probes:
        read = _PROBES.get(str(probe["probe"]))
        for quantity, value in (read(probe, run) if read else {}).items():
            series.setdefault(quantity, {})[int(probe["round"])] = value
    return series


def _by_round(rounds: list[int], values: Array) -> dict[int, float]:
    return dict(zip(rounds, (float(value) for value in values), strict=True))


def _client_matrix(probe: Mapping[str, Any], run: RunRecords) -> dict[str, float]:
    start, after = numbers(probe["start"]), numbers(probe["after"])
    lost = forgetting.client_forgetting(start, after, probe["models"], probe["data"])
    own = np.equal.outer(probe["models"], probe["data"])
    return {
        "local_forgetting": float(forgetting.known_mean(lost.by_model)),
        "own_gain": float(forgetting.known_mean(-lost.matrix[own])),
    }


def _local_per_class(probe: Mapping[str, Any], run: RunRecords) -> dict[str, float]:
    start, local, merged = (numbers(probe[part]) for part in ("start", "local", "merged"))
    lost = forgetting.knowledge_lost(start, local, merged)
    found = {"lost_locally": lost.local, "lost_in_merge": lost.aggregation}
    if probe.get("loss"):
        rise = forgetting.known_mean(numbers(probe["loss"]["local"])) - probe["loss"]["start"]
        found["local_loss_rise"] = float(rise)
    if probe.get("counts"):
        # Transposed, so that counts are shares of the client's most frequent class.
        found["count_accuracy"] = forgetting.probability_by_count(
            local.T, numbers(probe["counts"]).T
        ).correlation
    return found


def _probability(probe: Mapping[str, Any], run: RunRecords) -> dict[str, float]:
    most = None if run.label_counts is None else run.label_counts.max(axis=0)
    held = forgetting.probability_by_count(numbers(probe["probability"]), numbers(probe["counts"]), most)
    return {"count_probability": held.correlation}


_PROBES = {"client_matrix": _client_matrix, "local_per_class": _local_per_class, "probability": _probability}
