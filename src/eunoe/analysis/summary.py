"""Summary of a run's records, as numbers and as sentences; the cost of changes of the data."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from eunoe.analysis.divergence import divergence, never_learned_warning
from eunoe.metrics import forgetting
from eunoe.metrics.phases import recovery
from eunoe.store.run_records import RunRecords, numbers
from eunoe.system.files import plain


class Summary(dict[str, Any]):
    """The numbers of a run, which print as sentences. What was not measured is NaN and not mentioned."""

    def sentences(self) -> list[str]:
        """Return the numbers as sentences; differences of accuracy (F1, R²) are in points (hundredths)."""
        title, what, unit = self["metric"], self["known"], self["unit"]
        known = {name for name, value in self.items() if isinstance(value, float) and not np.isnan(value)}
        lines = [self["trouble"]] if self["trouble"] else []
        if "accuracy" in known:
            last = min(self["last"], self["rounds"])
            end = "at the end" if last == 1 else f"over the last {last}"
            best = f" in round {self['best_round']}" if self["best_round"] else ""
            lines.append(
                f"{self['rounds']} rounds, {title} {self['accuracy']:.1%} {end} "
                f"(best {self['best_accuracy']:.1%}{best})."
            )
        if "round_forgetting" in known:
            below = self["fedntd"]
            end = "no lower than" if _none(below) or below < 0 else f"{_points(below)} below"
            lines.append(
                f"A round takes {_points(self['round_forgetting'])} of {what} from a {unit}, gains not "
                f"counted; a {unit} ends {end} its best."
            )
        if self["changes"]:
            lines.append(self["changes"])
        if "sent_forgetting" in known:
            lines.append(
                f"These are numbers of the averaged model; the model sent to clients has {title} "
                f"{self['sent_accuracy']:.1%}, and a round takes {_points(self['sent_forgetting'])} from a "
                f"{unit}."
            )
        if "lost_locally" in known:
            lines.append(
                f"Local training loses {_points(self['lost_locally'])} that the start model had; aggregation "
                f"loses {_points(self['lost_in_aggregation'])} that the best client had."
            )
            lines.append(
                f"In sum, local training {_change(self['local_change'])} "
                f"and aggregation {_change(self['aggregation_change'])}."
            )
        if "client_forgetting" in known:
            cost = self["client_forgetting"]
            verb = "lowers" if cost >= 0 else "raises"
            lines.append(
                f"On other clients' data, local training {verb} the {self['client_metric']} by "
                f"{_points(abs(cost))}."
            )
        if "epsilon" in known:
            lines.append(
                f"Client-level differential privacy with epsilon = {self['epsilon']:.3g} and delta = "
                f"{self['delta']:g} (replacing one client), except for metrics on clients' own samples."
            )
        drops = np.nan_to_num(numbers(self["lost_per_class"]), nan=0.0)
        worst = [int(label) for label in np.argsort(-drops, kind="stable")[:3] if drops[label] > 0]
        if worst:
            named = ", ".join(f"{self['class_names'][label]} ({_points(drops[label])})" for label in worst)
            lines.append(f"{self['units'].capitalize()} that lose most per round: {named}.")
        return lines

    def __str__(self) -> str:
        return "\n".join([f"{self['name']}: {' '.join(self.sentences()[:1])}", *self.sentences()[1:]])

    __repr__ = __str__


def summarize(run: RunRecords) -> Summary:
    """Summarize what one run forgot, and in which step, as means over rounds.

    Probes of the first round are left out if there are others: its start model has learned nothing yet.
    """
    later = [probe for probe in run.probes if probe["round"] > 1] or list(run.probes)
    steps = [
        (numbers(probe["start"]), numbers(probe["local"]), numbers(probe["merged"]))
        for probe in later
        if probe["probe"] == "local_per_class"
    ]
    lost = [forgetting.knowledge_lost(*step) for step in steps]
    parts = [forgetting.accounting(*step) for step in steps]
    matrices = [
        forgetting.client_forgetting(
            numbers(probe["start"]), numbers(probe["after"]), probe["models"], probe["data"]
        )
        for probe in later
        if probe["probe"] == "client_matrix"
    ]
    curve, history, diverged = run.curve(run.task.metric), run.per_class, divergence(run)
    best = int(np.nanargmax(curve)) if np.isfinite(curve).any() else None
    changes = data_changes(run)
    return Summary(
        name=run.label,
        metric=run.task.title,
        known=run.task.unit_metric,
        unit=run.task.unit,
        units=run.task.units,
        client_metric=run.task.client_metric,
        diverged=bool(diverged),
        changes="" if changes is None else changes.sentence,
        lost_by_changes=float("nan") if changes is None else changes.lost,
        trouble=f"The run diverged: {diverged}." if diverged else _sentence(never_learned_warning(run)),
        rounds=int(run.metrics[-1]["round"]),
        last=run.last,
        accuracy=forgetting.mean_at_end(curve, run.rounds, run.last),
        best_accuracy=float(curve[best]) if best is not None else float("nan"),
        best_round=run.rounds[best] if best is not None else 0,
        area_under_curve=forgetting.area_under_curve(curve, run.rounds),
        round_forgetting=forgetting.mean_over_rounds(run.forgetting("round"), run.rounds),
        fedntd=forgetting.mean_at_end(run.forgetting("fedntd"), run.rounds, run.last),
        sent_accuracy=_sent_accuracy(run),
        sent_forgetting=run.sent_forgetting,
        lost_locally=forgetting.known_mean([step.local for step in lost]),
        lost_in_aggregation=forgetting.known_mean([step.aggregation for step in lost]),
        local_change=forgetting.known_mean([forgetting.known_mean(part.local) for part in parts]),
        aggregation_change=forgetting.known_mean([forgetting.known_mean(part.aggregation) for part in parts]),
        client_forgetting=forgetting.known_mean([forgetting.known_mean(each.by_model) for each in matrices]),
        epsilon=run.latest("privacy.epsilon"),
        delta=run.latest("privacy.delta"),
        lost_per_class=plain(forgetting.known_mean(run.lost_per_class, axis=0)),
        class_names=run.names(history.shape[1]),
    )


def _sent_accuracy(run: RunRecords) -> float:
    rounds, values = run.series(f"sent.{run.part}.{run.task.metric}")
    return forgetting.mean_at_end(values, rounds, run.last)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def _none(share: float) -> bool:
    """Return whether it would be formatted as 0.0 points."""
    return float(f"{100 * share:.1f}") == 0


def _change(lost: float) -> str:
    if _none(lost):
        return "changes nothing"
    return f"takes {_points(lost)} away" if lost > 0 else f"gives {_points(-lost)} back"


@dataclass(frozen=True)
class DataChanges:
    """The rounds in which the data changed, the accuracy lost by it, and how long recovery took.

    Where classes come in phases, `lost` is the loss from each earlier phase's best, and `recovered` is empty,
    since every phase tests other classes. Elsewhere `lost` is how far a phase is below the last third of the
    one before, on average, and `recovered` has the rounds until the accuracy was regained after each change,
    None where it was not.
    """

    rounds: tuple[int, ...]
    lost: float
    recovered: tuple[int | None, ...]
    metric: str = "accuracy"

    @property
    def sentence(self) -> str:
        """The numbers as a sentence."""
        when = ", ".join(map(str, self.rounds[:5])) + ", ..." * (len(self.rounds) > 5)
        word = "rounds" if len(self.rounds) > 1 else "round"
        cost = f"The data changed in {word} {when}, which cost {_points(self.lost)}"
        if not self.recovered:
            return f"{cost} on classes of earlier phases."
        needed = [rounds for rounds in self.recovered if rounds is not None]
        took = f", after {np.mean(needed):.0f} rounds on average" if needed else ""
        return f"{cost}; the {self.metric} recovered {len(needed)} of {len(self.recovered)} times{took}."


def phase_starts(run: RunRecords) -> list[int]:
    """Return the first rounds of the phases of a stream after the first phase; empty without a stream."""
    first: dict[int, int] = {}
    began = dict(zip(*run.series("phases.began"), strict=True))
    for round, phase in zip(*run.series("phases.phase"), strict=True):
        first.setdefault(int(phase), int(began.get(round, round)))
    return [round for phase, round in sorted(first.items()) if phase > 1]


def data_changes(run: RunRecords) -> DataChanges | None:
    """Return the cost of changes of the data; None without changes, or without evaluations around them."""
    starts, curve, at = phase_starts(run), run.curve(run.task.metric), np.array(run.rounds)
    phases = np.searchsorted(starts, at, side="right")
    if len(set(phases.tolist())) < 2:
        return None
    forgotten = run.latest("phases.forgetting")
    if not np.isnan(forgotten):
        return DataChanges(tuple(starts), forgotten, ())
    lost = []
    for number in range(1, len(starts) + 1):
        before, after = curve[phases == number - 1], curve[phases == number]
        if len(before) and len(after):
            last_third = before[-max(1, len(before) // 3) :]
            lost.append(max(0.0, float(last_third.mean() - after.mean())))
    recovered = tuple(recovery(curve, run.rounds, [1, *starts]))
    return DataChanges(tuple(starts), float(np.mean(lost)), recovered, run.task.title)
