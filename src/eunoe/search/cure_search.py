"""The search of a cure: waves of trials, each decided when the time that is left is known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from eunoe.analysis.remedies import Remedy
from eunoe.analysis.statistics import mean
from eunoe.config.options import Options, ScoreName
from eunoe.metrics.forgetting import known_mean, mean_over_rounds
from eunoe.search.halving import FINALISTS, Callbacks, Clock, Halving, Trial, rungs_of
from eunoe.search.journal import Journal, Scores, TrialResult, rank_results
from eunoe.search.remedies import Applicability, CureRuns, Variants, averaging_variants, list_seeds, vary
from eunoe.search.verdict import Model, Outcome, Which, read_outcome
from eunoe.simulation.hooks import Record
from eunoe.simulation.many import Planned
from eunoe.store.reader import read_run
from eunoe.store.run_records import RunRecords

SEARCH_SEEDS = 1000
# The least number of fresh seeds, for which time is reserved.
FRESH = 5
# With fewer validation samples, scores are means over several search seeds (at most MOST_SEEDS).
ENOUGH_SAMPLES, MOST_SEEDS = 400, 4
# How many remedies of the table, or variations of the best, are tried at a time.
WAVE = 6
# How many further seeds the finalists run on.
REPEATS = 2
# The shares of its rounds after which a trial is compared with the others; remedies start at different
# speeds, so that an earlier comparison would mislead.
SHARES = (0.4, 1.0)
# The largest share of the budget that the first two trials may take, at the speed of the source run.
FIRST = 0.5
# Factor on estimated times, and the share of its full length that a trial runs on average.
SLACK, SHARE = 1.5, 0.8


class CureOptions(Options):
    """The options of a cure; `budget` is in seconds."""

    budget: float
    trials: int | None = Field(None, ge=1)
    seeds: int | None = Field(None, ge=FRESH)
    metric: ScoreName | None = None
    retain_at_least: float | None = Field(None, gt=0, le=1)
    jobs: int | None = None


def estimate_seconds(run: RunRecords) -> float:
    """Estimate the seconds of a full run from the source run."""
    done = max(1, len(run.metrics))
    return float(run.status.get("seconds", 0.0)) / done * run.checked_config.rounds


class SearchClock(Clock):
    """The budget of a cure, with the time that full runs take at the speed measured so far.

    `reserved` is the number of runs for which time is kept.
    """

    def __init__(self, budget: float, estimate: float) -> None:
        super().__init__(budget)
        self.estimate, self.rounds, self.full, self.reserved = estimate, 0, 1, 0

    @property
    def run_seconds(self) -> float:
        """Seconds per full run, several of them at a time; those of the source run before the first runs."""
        return self.spent / self.rounds * self.full if self.rounds >= self.full else self.estimate

    @property
    def left(self) -> float:
        """Seconds that are left, without those for the reserved runs."""
        assert self.budget is not None
        return self.budget - self.spent - SLACK * self.run_seconds * self.reserved

    @property
    def over(self) -> bool:
        return self.left <= 0


@dataclass
class Search:
    """The search of a cure: waves of trials, each decided when the time that is left is known."""

    runs: CureRuns
    journal: Journal
    clock: SearchClock
    remedies: list[Remedy]
    applicability: Applicability
    options: CureOptions
    trials: list[Trial] = field(default_factory=list)
    variants: list[Variants] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock.full = self.runs.config.rounds
        count = min(max(1, math.ceil(ENOUGH_SAMPLES / self.runs.samples)), MOST_SEEDS)
        self.seeds = list_seeds(SEARCH_SEEDS, count, self.runs.seed)
        self.baseline = self.runs.own_variant(averaging_variants(self.remedies[0], self.runs.config))

    @property
    def tried(self) -> int:
        return sum(self.journal.last_scores(trial.number) is not None for trial in self.trials[1:])

    def run(self) -> Remedy | None:
        """Return the best variant of the best remedy, or None if the budget allows no search."""
        steps: list[list[Any]] = list(self.journal.notes.get("steps", []))
        done, complete = 0, True
        while complete:
            if done or self.options.trials is None:
                # For baseline and winner on the fresh seeds. A number of trials starts whatever the estimate.
                self.clock.reserved = 2 * (self.options.seeds or FRESH)
            if done == len(steps):
                if "winner" in self.journal.notes or (step := self._next_step(steps)) is None:
                    break
                steps.append(step)
                self.journal.note(steps=steps)
            complete = self._take(*steps[done])
            done += 1
        if "winner" not in self.journal.notes:
            ranked = self._ranked()
            if not ranked:
                return None
            scores = self.journal.scores[ranked[0].number, self.runs.config.rounds]
            averaged = not scores.newest_accuracy >= scores.accuracy
            self.journal.note(winner=ranked[0].number, averaged=averaged)
        winner = self.variants[int(self.journal.notes["winner"])]
        return winner.averaged if self.journal.notes["averaged"] else winner.newest

    def _next_step(self, steps: Sequence[Sequence[Any]]) -> list[Any] | None:
        """Decide what to do next: try remedies, vary the best, repeat the finalists, or end (None)."""
        kinds = [kind for kind, _ in steps]
        tried = sum(count for kind, count in steps if kind in ("try", "vary"))
        limit = math.inf if self.options.trials is None else self.options.trials - tried
        remaining = len(self.remedies) - len(self.trials)
        repeats = kinds.count("repeat")
        if not self.trials:
            # The baseline and one remedy show how fast runs are, several at a time.
            count = min(1, remaining - 1)
            seconds = (1 + count) * len(self.seeds) * self.clock.estimate
            fits = self.options.trials is not None or seconds <= FIRST * self.options.budget
            return ["try", count] if fits else None
        # How many trials fit the time that the runs on fresh seeds leave.
        trial = SLACK * self.clock.run_seconds * SHARE * len(self.seeds)
        fit = self.clock.left / trial if trial else math.inf
        if self.options.trials is not None:
            fit = 0 if self.clock.over else math.inf
        if "vary" not in kinds and (count := int(min(WAVE, remaining, limit, fit))) > 0:
            return ["try", count]
        if "vary" not in kinds and limit > 0 and fit >= 1:
            return ["vary", int(min(WAVE, limit, fit))]
        if repeats < REPEATS and len(self.trials) > 1 and fit * SHARE >= FINALISTS:
            return ["repeat", FINALISTS]
        return None

    def seconds_needed(self) -> float:
        """Estimate the smallest budget that allows a search."""
        runs = 2 * (self.options.seeds or FRESH) + 3 * SHARE * len(self.seeds)
        return SLACK * runs * self.clock.run_seconds

    def _take(self, kind: str, count: int) -> bool:
        """Take a step; return whether it ended before the budget did."""
        rounds = self.runs.config.rounds
        if kind == "repeat":
            seeds = list_seeds(SEARCH_SEEDS, len(self.seeds) + 1, self.runs.seed)
            finalists = self._ranked()[:count]
            if self.trials[0] not in finalists:
                finalists.append(self.trials[0])
            ended = self._halving(seeds).run_stage(finalists, rounds)
            if ended:
                self.seeds = seeds
            return ended
        if kind == "vary":
            best = self.variants[self._ranked()[0].number].newest if self._ranked() else self.remedies[0]
            new = self.applicability.select(vary(best))[:count]
        else:
            start = len(self.trials)
            new = self.remedies[start : start + count + (not start)]
        rivals = list(self.trials)
        for remedy in new:
            number = len(self.trials)
            variants = averaging_variants(remedy, self.runs.config)
            trial = self.runs.trial(variants, number)
            self.trials.append(trial)
            self.variants.append(variants)
            self.journal.add_trial(number, trial.label, remedy.changes)
        return self._halving(self.seeds).run(self.trials[len(rivals) :], rivals)

    def _halving(self, seeds: Sequence[int]) -> Halving:
        def on_round(planned: Planned, record: Record | None) -> None:
            self.runs.callbacks.on_round(planned, record)
            if record is not None:
                self.clock.rounds += 1

        return Halving(
            self.runs.folder / "search",
            seeds,
            rungs_of(self.runs.config.rounds, SHARES),
            self.runs.jobs,
            self.journal,
            self.clock,
            Callbacks(self.runs.callbacks.on_stage, on_round),
            measure=score_runs,
            samples=self.runs.samples,
        )

    def _ranked(self) -> list[Trial]:
        """Return the trials that ran to the end, the best first."""
        return self._halving(self.seeds).rank(self.trials, self.runs.config.rounds)

    def results(self) -> tuple[TrialResult, ...]:
        """Return the results of the search, with a row for each variant."""
        results, label = list[TrialResult](), self.runs.label
        for number, (newest, averaged) in enumerate(self.variants):
            if last := self.journal.last_scores(number):
                rounds, scores = last
                new = TrialResult(label(newest), rounds, scores.newest_accuracy, scores.newest_forgetting)
                mean = TrialResult(label(averaged), rounds, scores.accuracy, scores.forgetting)
                results += [new, mean]
        return tuple(rank_results(results))

    def stronger_baseline(self) -> Which:
        """Return the stronger form of the baseline on the search seeds: best checkpoint or last rounds."""
        if self.runs.config.privacy is not None:
            return "last"
        if not self._ranked():
            return "best"
        model: Model = "" if self.runs.config.averaging is not None else "sent"
        runs = [self._read(self.trials[0], seed) for seed in self.seeds]
        best = mean([read_outcome(run, "best", model).score["judging"] for run in runs])
        last = mean([read_outcome(run, "last", model).score["judging"] for run in runs])
        return "last" if last > best else "best"

    def _read(self, trial: Trial, seed: int) -> RunRecords:
        rounds = self.runs.config.rounds
        return read_run(trial.plan_run(self.runs.folder / "search", seed, rounds).folder, begun=False)

    def alternatives(self) -> list[tuple[str, Outcome]]:
        """Return the variants that ran to the end with their outcomes on the first search seed, best first.

        The baseline is the first of all.
        """
        if not self._ranked():
            return []
        ranked = [self.trials[0], *(trial for trial in self._ranked() if trial.number)]
        outcomes = []
        for trial in ranked:
            run = self._read(trial, self.seeds[0])
            models: tuple[Model, Model] = ("sent", "")
            for variant, model in zip(self.variants[trial.number], models, strict=True):
                outcomes.append((self.runs.label(variant), read_outcome(run, "best", model)))
        first, *others = outcomes
        return [first, *sorted(others, key=lambda pair: -pair[1].score["validation"])]


def score_runs(runs: Sequence[RunRecords], rounds: int) -> Scores:
    """Return the scores of a trial's runs after some rounds, by the best checkpoint on validation data."""

    def scores(model: Model) -> tuple[float, float]:
        prefix = f"{model}." if model else ""
        outcomes = [read_outcome(run, "best", model, rounds) for run in runs]
        forgetting = [run.series(f"{prefix}forgetting.round") for run in runs]
        return (
            mean([outcome.score["validation"] for outcome in outcomes]),
            float(known_mean([mean_over_rounds(values, at) for at, values in forgetting])),
        )

    seconds = mean([float(run.status.get("seconds", math.nan)) for run in runs])
    return Scores(*scores(""), seconds, *scores("sent"))
