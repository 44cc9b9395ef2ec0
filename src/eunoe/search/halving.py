"""Successive halving over rounds: all trials run a quarter of the rounds, the better half of them continues
to half of the rounds, the better half of those to the end.

A trial's score is the mean validation accuracy (or F1 or R²) over its seeds and last rounds; the test set is
never read. Scores alone decide which trials continue. A stage that the budget cuts short promotes no trial,
and its runs can be resumed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eunoe.config.schema import Config
from eunoe.config.settings import merge
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.metrics.forgetting import known_mean, mean_at_end, mean_over_rounds
from eunoe.search.budget import Clock, TimeUp
from eunoe.search.journal import Journal, Scores
from eunoe.search.sweep import OnSweepRound, Planned, execute, folder_name, is_done
from eunoe.simulation.hooks import Record
from eunoe.store.reader import read_run, read_status
from eunoe.store.run_records import RunRecords

SHARES = (0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Trial:
    """A configuration to try: its number in the plan, a label, config values, and the user's own objects."""

    number: int
    label: str
    values: Mapping[str, Any]
    objects: Mapping[str, Any] = field(default_factory=dict)

    def plan_run(self, folder: Path, seed: int, rounds: int) -> Planned:
        """Return the trial's run at a seed."""
        values = {**self.values, "seed": seed, "rounds": rounds, "name": self.label}
        folder = folder / folder_name(self.label) / f"seed-{seed}"
        return Planned(self.label, values, folder, objects=self.objects)


@dataclass(frozen=True)
class Callbacks:
    """Progress callbacks of a search: for a stage's title and rounds, and for each round of a run."""

    on_stage: Callable[[str, int], None] = lambda title, rounds: None
    on_round: OnSweepRound = lambda planned, record: None


@dataclass(frozen=True)
class Halving:
    """Successive halving of trials in a folder: `rungs` are the rounds after which trials are compared.

    The trial with number `keep` always continues, in place of the last that would, or beside the only one.
    """

    folder: Path
    seeds: Sequence[int]
    rungs: Sequence[int]
    jobs: int
    journal: Journal
    clock: Clock
    callbacks: Callbacks = field(default_factory=Callbacks)
    score: Callable[[Scores], float] = lambda scores: scores.accuracy
    keep: int | None = None

    def run(self, trials: Sequence[Trial]) -> bool:
        """Run all stages; return whether they ended before the budget did."""
        for rounds in self.rungs:
            if not self._run_stage(trials, rounds):
                return False
            trials = self._promote(trials, rounds)
        return True

    def best(self, trials: Sequence[Trial]) -> tuple[Trial, int]:
        """Return the best trial of the last stage that has scores, and its rounds."""
        for rounds in reversed(self.rungs):
            if ranked := self._rank(trials, rounds):
                return ranked[0], rounds
        raise InputError("the budget ended before the first result: pass a larger budget")

    def _rank(self, trials: Sequence[Trial], rounds: int) -> list[Trial]:
        """Sort the trials that have scores at this many rounds, best first."""
        scores = self.journal.scores
        known = [trial for trial in trials if (trial.number, rounds) in scores]
        return sorted(known, key=lambda trial: (-self.score(scores[trial.number, rounds]), trial.number))

    def _promote(self, trials: Sequence[Trial], rounds: int) -> list[Trial]:
        better = self._rank(trials, rounds)[: math.ceil(len(trials) / 2)]
        keep = [trial for trial in trials if trial.number == self.keep and trial not in better]
        return [*better[: max(1, len(better) - len(keep))], *keep]

    def _run_stage(self, trials: Sequence[Trial], rounds: int) -> bool:
        missing = [trial for trial in trials if (trial.number, rounds) not in self.journal.scores]
        if not missing:
            return True
        if self.clock.over:
            return False
        runs = {
            trial.number: [trial.plan_run(self.folder, seed, rounds) for seed in self.seeds]
            for trial in missing
        }
        every = [planned for group in runs.values() for planned in group]
        left = [max(0, rounds - int(read_status(planned.folder).get("round", 0))) for planned in every]
        word = "trial" if len(missing) == 1 else "trials"
        self.callbacks.on_stage(f"{len(missing)} {word} to round {rounds}", sum(left))
        try:
            execute(every, self.jobs, self._follow)
            ended = list(missing)
        except TimeUp:
            # A stage that was cut short does not count, unless it is the first.
            first = not self.journal.scores
            ended = [trial for trial in missing if first and all(map(is_done, runs[trial.number]))]
        for trial in ended:
            records = [read_run(planned.folder, begun=False) for planned in runs[trial.number]]
            self.journal.add_scores(trial.number, rounds, score_runs(records, rounds))
        self.journal.note(spent=self.clock.spent)
        return len(ended) == len(missing)

    def _follow(self, planned: Planned, record: Record | None) -> None:
        self.callbacks.on_round(planned, record)
        if self.clock.over:
            raise TimeUp


def rungs_of(rounds: int) -> list[int]:
    """Return the rounds after which trials are compared."""
    return sorted({max(1, round(share * rounds)) for share in SHARES})


def score_runs(runs: Sequence[RunRecords], rounds: int) -> Scores:
    """Return the scores of a trial's runs after some rounds, even if they have run further."""

    def mean_scores(model: str) -> tuple[float, float]:
        forgetting = [_series_until(run, f"{model}forgetting.round", rounds) for run in runs]
        return (
            float(np.mean([accuracy_at(run, rounds, model) for run in runs])),
            float(known_mean([mean_over_rounds(values, at) for at, values in forgetting])),
        )

    averaged = any(run.checked_config.averaging is not None for run in runs)
    newest = mean_scores("sent.") if averaged else (math.nan, math.nan)
    seconds = float(np.mean([run.status.get("seconds", math.nan) for run in runs]))
    return Scores(*mean_scores(""), seconds, *newest)


def accuracy_at(run: RunRecords, rounds: int, model: str = "") -> float:
    """Return the mean validation accuracy (or F1 or R²) over the last rounds up to `rounds`; 0 if diverged.

    It is that of the evaluated model or, with `model="sent."`, of the model sent to clients.
    """
    if run.status["state"] == "diverged":
        return run.task.floor
    at, values = _series_until(run, f"{model}validation.{run.task.metric}", rounds)
    last = min(run.checked_config.evaluation.last, max(1, rounds // 4))
    return mean_at_end(values, at, last)


def _series_until(run: RunRecords, path: str, rounds: int) -> tuple[Any, Any]:
    at, values = run.series(path)
    return at[at <= rounds], values[at <= rounds]


def compared_rounds(config: Config) -> int:
    """Return how many last rounds of a stage are evaluated."""
    return max(1, min(config.evaluation.last, max(2, config.rounds // 8)))


def search_values(values: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """Return values for the runs of a search: evaluated on validation data at the end of a stage only."""
    common = {key: value for key, value in values.items() if key not in ("stop", "track", "metrics")}
    last = compared_rounds(config)
    evaluation = {"every": 0, "last": last, "validation": True, "test": False, "personal": 0}
    return merge(common, {"evaluation": evaluation, "probes": []})


def check_validation(federation: Federation) -> None:
    """Raise an InputError if no client has validation data."""
    if not len(federation.pooled("validation")[0]):
        raise InputError("a search needs validation data, and no client has any: set split.validation=0.1")
