"""Summary of a run's records, as numbers and as sentences; the cost of changes of the data."""

import math
from typing import Any

import numpy as np

from eunoe.analysis.divergence import divergence, never_learned_warning, usefulness
from eunoe.analysis.statistics import as_points
from eunoe.metrics import forgetting
from eunoe.metrics.phases import recovery
from eunoe.store.run_records import RunRecords, numbers
from eunoe.system.files import plain
from eunoe.text import read_data

_SENTENCES = read_data("eunoe.analysis", "summary.toml")


class Summary(dict[str, Any]):
    """The numbers of a run, which print as sentences. What was not measured is NaN and not mentioned."""

    def sentences(self) -> list[str]:
        """Return the numbers as sentences; differences of accuracy (F1, R²) are in points (hundredths)."""
        shares = {name: value for name, value in self.items() if isinstance(value, float)}
        values = {**self, **{f"{name}_points": as_points(value) for name, value in shares.items()}}
        known = {name for name, value in shares.items() if not np.isnan(value)}
        lines = [self["trouble"] or self["usefulness"]] if self["trouble"] or self["usefulness"] else []

        def say(key: str, **more: Any) -> None:
            lines.append(_SENTENCES[key].format(**{**values, **more}))

        if "accuracy" in known:
            last = min(self["last"], self["rounds"])
            best = f" in round {self['best_round']}" if self["best_round"] else ""
            say("accuracy", end="at the end" if last == 1 else f"over the last {last}", best=best)
        if "round_forgetting" in known:
            below = self["fedntd"]
            end = "no lower than" if _none(below) or below < 0 else f"{as_points(below)} below"
            say("round_forgetting", end=end)
        if "retention" in known:
            say("retention")
        if self["changes"]:
            lines.append(self["changes"])
        if "sent_forgetting" in known:
            say("sent_forgetting")
        if "lost_locally" in known:
            say("lost_locally")
            local, merged = _change(self["local_change"]), _change(self["aggregation_change"])
            say("changes", local=local, aggregation=merged)
        if "client_forgetting" in known:
            cost = self["client_forgetting"]
            say("client_forgetting", verb="lowers" if cost >= 0 else "raises", cost=as_points(abs(cost)))
        if "epsilon" in known:
            say("epsilon")
        drops = np.nan_to_num(numbers(self["lost_per_class"]), nan=0.0)
        worst = [int(label) for label in np.argsort(-drops, kind="stable")[:3] if drops[label] > 0]
        if worst:
            named = ", ".join(f"{self['class_names'][label]} ({as_points(drops[label])})" for label in worst)
            say("lost_per_class", Units=self["units"].capitalize(), named=named)
        return lines

    def __str__(self) -> str:
        return "\n".join([f"{self['name']}: {' '.join(self.sentences()[:1])}", *self.sentences()[1:]])

    __repr__ = __str__


def summarize(run: RunRecords) -> Summary:
    """Summarize what one run forgot, and in which step, as means over rounds.

    Probes of the first round are left out if there are others: its start model has learned nothing yet.
    """
    later = [probe for probe in run.probes if probe["round"] > 1] or list(run.probes)
    steps = [(p["start"], p["local"], p["merged"]) for p in later if p["probe"] == "local_per_class"]
    lost = [forgetting.knowledge_lost(*step) for step in steps]
    parts = [forgetting.accounting(*step) for step in steps]
    matrices = [
        forgetting.client_forgetting(probe["start"], probe["after"], probe["models"], probe["data"])
        for probe in later
        if probe["probe"] == "client_matrix"
    ]
    curve, history, diverged = run.curve(run.task.metric), run.per_class, divergence(run)
    sent_rounds, sent = run.series(f"sent.{run.part}.{run.task.metric}")
    best = int(np.nanargmax(curve)) if np.isfinite(curve).any() else None
    (lost_by_changes, changes), useful = data_changes(run), usefulness(run)
    return Summary(
        name=run.label,
        metric=run.task.title,
        known=run.task.unit_metric,
        unit=run.task.unit,
        units=run.task.units,
        client_metric=run.task.client_metric,
        diverged=bool(diverged),
        changes=changes,
        lost_by_changes=lost_by_changes,
        trouble=f"The run diverged: {diverged}." if diverged else _sentence(never_learned_warning(run)),
        usefulness=useful.sentence,
        useless=useful.useless,
        rounds=int(run.metrics[-1]["round"]),
        last=run.last,
        accuracy=forgetting.mean_at_end(curve, run.rounds, run.last),
        best_accuracy=float(curve[best]) if best is not None else float("nan"),
        best_round=run.rounds[best] if best is not None else 0,
        area_under_curve=forgetting.area_under_curve(curve, run.rounds),
        round_forgetting=forgetting.mean_over_rounds(run.forgetting("round"), run.rounds),
        fedntd=forgetting.mean_at_end(run.forgetting("fedntd"), run.rounds, run.last),
        sent_accuracy=forgetting.mean_at_end(sent, sent_rounds, run.last),
        sent_forgetting=run.sent_forgetting,
        lost_locally=forgetting.known_mean([step.local for step in lost]),
        lost_in_aggregation=forgetting.known_mean([step.aggregation for step in lost]),
        local_change=forgetting.known_mean([forgetting.known_mean(part.local) for part in parts]),
        aggregation_change=forgetting.known_mean([forgetting.known_mean(part.aggregation) for part in parts]),
        client_forgetting=forgetting.known_mean([forgetting.known_mean(each.by_model) for each in matrices]),
        retention=run.latest("retention.share"),
        epsilon=run.latest("privacy.epsilon"),
        delta=run.latest("privacy.delta"),
        lost_per_class=plain(forgetting.known_mean(run.lost_per_class, axis=0)),
        class_names=run.names(history.shape[1]),
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _none(share: float) -> bool:
    """Return whether it would be formatted as 0.0 points."""
    return float(f"{100 * share:.1f}") == 0


def _change(lost: float) -> str:
    if _none(lost):
        return "changes nothing"
    return f"takes {as_points(lost)} away" if lost > 0 else f"gives {as_points(-lost)} back"


def phase_starts(run: RunRecords) -> list[int]:
    """Return the first rounds of the phases of a stream after the first phase; empty without a stream."""
    first: dict[int, int] = {}
    began = dict(zip(*run.series("phases.began"), strict=True))
    for round, phase in zip(*run.series("phases.phase"), strict=True):
        first.setdefault(int(phase), int(began.get(round, round)))
    return [round for phase, round in sorted(first.items()) if phase > 1]


def data_changes(run: RunRecords) -> tuple[float, str]:
    """Return the accuracy lost by changes of the data, and a sentence on it; NaN and empty without changes.

    Where classes come in phases, it is the loss from each earlier phase's best. Elsewhere it is how far a
    phase is below the last third of the one before, on average, and the accuracy may recover after a change.
    """
    starts, curve, at = phase_starts(run), run.curve(run.task.metric), np.array(run.rounds)
    phases = np.searchsorted(starts, at, side="right")
    if len(set(phases.tolist())) < 2:
        return math.nan, ""
    rounds = ", ".join(map(str, starts[:5])) + ", ..." * (len(starts) > 5)
    changed = f"The data changed in {'rounds' if len(starts) > 1 else 'round'} {rounds}, which cost"
    lost = run.latest("phases.forgetting")
    if not np.isnan(lost):
        return lost, f"{changed} {as_points(lost)} on classes of earlier phases."
    losses = []
    for number in range(1, len(starts) + 1):
        before, after = curve[phases == number - 1], curve[phases == number]
        if len(before) and len(after):
            last_third = before[-max(1, len(before) // 3) :]
            losses.append(max(0.0, float(last_third.mean() - after.mean())))
    lost, recovered = float(np.mean(losses)), recovery(curve, run.rounds, [1, *starts])
    needed = [rounds for rounds in recovered if rounds is not None]
    took = f", after {np.mean(needed):.0f} rounds on average" if needed else ""
    times = f"{len(needed)} of {len(recovered)} times{took}"
    return lost, f"{changed} {as_points(lost)}; the {run.task.title} recovered {times}."
