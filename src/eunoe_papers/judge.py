"""Verdicts on claims: differences paired by seed, with a 95% Student interval.

    confirmed       the interval is above zero
    contradicted    it is below zero, or the arms that should be ahead diverged in every seed
    inconclusive    neither, or they diverged in some seeds
    not tested      fewer than three seeds, only seeds on which something was chosen, or networks that FedAvg
                    has trained to less than a third of the accuracy of central training or twice chance

All seeds are compared on the same arms. Rounds to a target are compared as min(rounds, H), where H is the
largest horizon that all compared runs have; if no arm reaches the target by then, the claim is not tested. A
claim that two arms are about equal is confirmed if the interval lies within its margin, and contradicted if
it lies outside. A claim on the spread over seeds needs five.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eunoe.analysis.statistics import Interval, student_interval
from eunoe.data.builtin import SPECS
from eunoe_papers import read_table
from eunoe_papers.claims import Claim, Comparison, Label, Values
from eunoe_papers.experiment import Experiment, Scale
from eunoe_papers.outcomes import Reading

Cells = Mapping[Label, Reading]
Network = tuple[str, str]
MIN_SEEDS, MIN_SEEDS_FOR_SPREAD = 3, 5
# Test accuracy of central training, by data set and network.
CENTRAL: dict[str, dict[str, float]] = read_table("networks")["central"]


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, with its effect by seed and the runs that it compares.

    `reason` states why a claim is not tested. `sentence` is the claim with what the test leaves out.
    `reached` says in how many seeds each arm reached a target. `compared` are the cells that are compared.
    """

    claim: Claim
    word: str
    sentence: str
    by_seed: tuple[float, ...]
    effect: Interval
    diverged: int
    reason: str
    reached: str
    compared: tuple[str, ...]

    @property
    def seeds(self) -> int:
        return len(self.by_seed) + self.diverged

    @property
    def estimate(self) -> str:
        """The mean effect with its interval."""
        scale = 100 if self.claim.unit == "points" else 1
        mean, low, high = (scale * value for value in self.effect)
        if math.isnan(mean):
            return ""
        return f"{mean:+.2f} {self.claim.unit}" + f" [{low:+.2f}, {high:+.2f}]" * (not math.isnan(low))

    def text(self) -> str:
        """Format the verdict as one line."""
        parts = [self.reason, self.estimate, f"{self.seeds} seeds" if self.seeds > 1 else ""]
        parts += [f"diverged in {self.diverged}" if self.diverged else "", self.reached]
        return ": ".join(text for text in (self.word, ", ".join(part for part in parts if part)) if text)


def judge(
    experiment: Experiment, scale: Scale, cells: Mapping[Label, Sequence[Reading]]
) -> tuple[Verdict, ...]:
    """Judge the claims of an experiment on the values of its runs, by cell."""
    every = [reading for readings in cells.values() for reading in readings]
    only_stand_in = bool(every) and all(reading.planned.stand_in for reading in every)
    by_seed: dict[int, dict[Label, Reading]] = {}
    for cell, readings in cells.items():
        for reading in readings:
            if reading.counts(scale, only_stand_in):
                by_seed.setdefault(reading.planned.seed, {})[cell] = reading
    return tuple(_judge(experiment, claim, scale, by_seed, only_stand_in) for claim in experiment.claims)


def _judge(
    experiment: Experiment, claim: Claim, scale: Scale, by_seed: Mapping[int, Cells], other_data: bool
) -> Verdict:
    """Judge one claim on the seeds that have what it compares."""
    tested = {seed: cells for seed, cells in by_seed.items() if claim.compare(_values(cells)) is not None}
    fair = {seed: cells for seed, cells in tested.items() if seed not in claim.chosen_on.get(scale, ())}
    seeds = list((fair or tested).values())
    common = set.intersection(*map(set, seeds)) if seeds else set()
    seeds = [{cell: reading for cell, reading in cells.items() if cell in common} for cells in seeds]
    compared = {cell for result in _compare(claim, seeds) for cell in result.cells}
    readings = [reading for cells in seeds for cell, reading in cells.items() if cell in compared]
    # Rounds to a target are known up to the shortest run that did not reach it.
    horizon = min((reading.length[0] for reading in readings if math.isinf(reading.value)), default=0)
    reached = _count_reached(seeds, compared, horizon or math.inf)
    out_of_reach = bool(reached) and not any(reached.values())
    results = [] if out_of_reach else _compare(claim, seeds, horizon or math.inf)
    by_claim = tuple(result.value for result in results if not math.isnan(result.value))
    if out_of_reach:
        reason = f"no arm reaches the target within the common horizon of {horizon} rounds"
    elif not results:
        reason = "the runs that it compares are missing or too short"
    elif len(results) < MIN_SEEDS:
        reason = f"fewer than {MIN_SEEDS} seeds"
    elif not fair:
        reason = "a setting or the claim was chosen on these seeds"
    elif experiment.needs_training:
        # A claim without FedAvg is about networks that FedAvg has trained as well.
        has_fedavg = any(reading.planned.is_fedavg for reading in readings)
        reason = untrained(readings if has_fedavg else [r for cells in seeds for r in cells.values()])
    else:
        reason = ""
    effect, diverged = student_interval(by_claim), len(results) - len(by_claim)
    return Verdict(
        claim,
        "not tested" if reason else _word(claim, effect, diverged),
        claim.sentence + _limits(experiment, claim, compared, other_data),
        by_claim,
        effect,
        diverged,
        reason,
        ", ".join(f"{arm} reached it in {count} of {len(seeds)} seeds" for arm, count in reached.items()),
        tuple(sorted(map(str, compared))),
    )


def _word(claim: Claim, effect: Interval, diverged: int) -> str:
    if math.isnan(effect.mean):
        return "contradicted"
    if claim.within is not None:
        inside = max(abs(effect.low), abs(effect.high)) < claim.within
        outside = effect.low > claim.within or effect.high < -claim.within
    else:
        inside, outside = effect.positive, effect.negative
    if inside and not diverged:
        return "confirmed"
    return "contradicted" if outside else "inconclusive"


def _compare(claim: Claim, seeds: Sequence[Cells], horizon: float = math.inf) -> list[Comparison]:
    """Compare the arms of each seed; none where a claim on spread has too few seeds."""
    values = [_values(cells, horizon) for cells in seeds]
    if claim.spread:
        if len(values) < MIN_SEEDS_FOR_SPREAD:
            return []
        median = {cell: statistics.median(seed[cell] for seed in values) for cell in values[0]}
        values = [{cell: abs(value - median[cell]) for cell, value in seed.items()} for seed in values]
    return [result for seed in values if (result := claim.compare(seed)) is not None]


def _values(cells: Cells, horizon: float = math.inf) -> Values:
    """Return the values of a seed; a target that was not reached counts as the horizon, or the last round."""
    return {
        cell: min(r.value, horizon, r.length[0]) if r.measure.unit == "rounds" else r.value
        for cell, r in cells.items()
    }


def _count_reached(seeds: Sequence[Cells], compared: set[Label], horizon: float) -> dict[Label, int]:
    """Count for each arm the seeds in which it reached its target; empty without one."""
    counts: dict[Label, int] = {}
    for cells in seeds:
        for cell in compared & cells.keys():
            if cells[cell].measure.unit == "rounds":
                arm, value = cell.replace(measure=""), cells[cell].value
                counts[arm] = counts.get(arm, 0) + (math.isfinite(value) and value <= horizon)
    return dict(sorted(counts.items(), key=str))


def _limits(experiment: Experiment, claim: Claim, compared: set[Label], other_data: bool) -> str:
    """Describe the methods and data sets of a claim that were not run."""
    sides = [side for pair in claim.pairs for side in ((pair.better, pair.rivals)[len(claim.pairs) == 1 :])]
    methods = dict.fromkeys(selector.get("method") for side in sides for selector in side)
    data = dict.fromkeys(arm.label.get("data") for arm in experiment.arms if arm.label.matches(claim.where))
    if any("data" in selector for pair in claim.pairs for selector in pair.better):
        data = {}
    notes = ["on other data than the paper's"] if other_data else []
    for part, names, note in (("data", data, "not run"), ("method", methods, "not compared")):
        absent = [str(n) for n in names if n and not any(cell.get(part) == n for cell in compared)]
        notes = [f"{note}: {', '.join(absent)}", *notes] if absent and compared else notes
    return f" ({'; '.join(notes)})" if notes else ""


def network(values: Mapping[str, Any]) -> Network:
    """Return the data set and the network of a config; a narrower one or smaller images make another."""
    data, model = values["data"], values["model"]
    width = f" of width {model['width']}" if "width" in model else ""
    pooled = {1: "", 2: " on half-size images", 4: " on quarter-size images"}[data.get("pool", 1)]
    return str(data.get("of", data["name"])), f"{model['name']}{width}{pooled}"


def needed(which: Network) -> float:
    """Return the accuracy that a trained network has at least: a third of central training, twice chance."""
    data, name = which
    chance, known = 1 / SPECS[data].classes if data in SPECS else 0.0, CENTRAL.get(data, {})
    # Without central training on smaller images, that on whole ones counts; without any, 1.
    central = known.get(name) or known.get(name.partition(" on ")[0], 1.0)
    return max(central / 3, 2 * chance)


def fedavg_accuracy(readings: Iterable[Reading]) -> dict[Network, float]:
    """Return what FedAvg reaches with each network: the median of the last third of the tested rounds.

    It is averaged over seeds, at the best learning rate and norm; where clients, shares or epochs are varied,
    in the setting where it is least. Without FedAvg, the median arm counts.
    """
    arms: dict[Network, dict[Label, list[float]]] = {}
    plain: set[Label] = set()
    by_run = {(r.planned.line, r.planned.seed): (r.planned, r.outcome) for r in readings}
    for planned, outcome in by_run.values():
        if not outcome.diverged:
            tested = list(outcome.of("accuracy").values()) or [0.0]
            accuracy = statistics.median(tested[-max(1, len(tested) // 3) :])
            arms.setdefault(network(planned.values), {}).setdefault(planned.arm, []).append(accuracy)
            plain |= {planned.arm} if planned.is_fedavg else set()
    result = {}
    for which, lines in arms.items():
        means = {arm: statistics.fmean(values) for arm, values in lines.items()}
        best: dict[Label, float] = {}
        for arm in means.keys() & plain:
            setting = arm.replace(lr="", norm="", augment="", method="")
            best[setting] = max(means[arm], best.get(setting, 0.0))
        result[which] = min(best.values()) if best else statistics.median_low(means.values())
    return result


def untrained(readings: Iterable[Reading]) -> str:
    """Return why the networks are too undertrained for a verdict; empty if they are not."""
    for which, accuracy in fedavg_accuracy(readings).items():
        if accuracy < needed(which):
            return f"FedAvg reaches {accuracy:.1%} on {which[0]}, less than the {needed(which):.1%} needed"
    return ""
