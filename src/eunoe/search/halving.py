"""Successive halving over rounds: all trials run a quarter of the rounds, the better half of them goes on
to half of the rounds, the better half of those to the end. Survivors go on from where they stopped.

What a trial reached is the mean validation accuracy (or F1 or R²) over its seeds and last rounds; the test
set is never read. Which trial is promoted depends on these numbers alone. Time decides only where the plan
ends: a stage that the budget cuts short promotes nobody, and its runs can go on.
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
from eunoe.search.journal import Journal, Result
from eunoe.search.sweep import Planned, done, execute, folder_name
from eunoe.simulation.loop import Record
from eunoe.store.reader import read_run, read_status
from eunoe.store.run_records import RunRecords

SHARES = (0.25, 0.5, 1.0)
# Called as a stage begins, with its title and how many rounds it has.
OnStage = Callable[[str, int], None]


@dataclass(frozen=True)
class Trial:
    """A configuration to try: its number in the plan, its label, values, and objects of the user's own."""

    number: int
    label: str
    values: Mapping[str, Any]
    given: Mapping[str, Any] = field(default_factory=dict)

    def planned(self, folder: Path, seed: int, rounds: int) -> Planned:
        """Its run at a seed."""
        values = {**self.values, "seed": seed, "rounds": rounds, "name": self.label}
        return Planned(
            self.label, values, folder / folder_name(self.label) / f"seed-{seed}", given=self.given
        )


@dataclass(frozen=True)
class Watching:
    """Who is told how a search goes."""

    on_stage: OnStage = lambda title, rounds: None
    on_round: Callable[[Planned, Record | None], None] = lambda planned, record: None


@dataclass(frozen=True)
class Halving:
    """Where and on which seeds trials run, to which rounds, and within which time."""

    folder: Path
    seeds: Sequence[int]
    rungs: Sequence[int]
    jobs: int
    journal: Journal
    clock: Clock
    watching: Watching = field(default_factory=Watching)
    # What trials are compared by.
    score: Callable[[Result], float] = lambda result: result.accuracy
    # The number of a trial that goes on whatever it reached: in the place of the last that would, or beside
    # the only one.
    kept: int | None = None

    def run(self, trials: Sequence[Trial]) -> bool:
        """Run a plan to its end or to that of the budget; whether all of it was run."""
        for rounds in self.rungs:
            if not self._stage(trials, rounds):
                return False
            trials = self._promoted(trials, rounds)
        return True

    def _promoted(self, trials: Sequence[Trial], rounds: int) -> list[Trial]:
        better = self.ranked(trials, rounds)[: math.ceil(len(trials) / 2)]
        kept = [trial for trial in trials if trial.number == self.kept and trial not in better]
        return [*better[: max(1, len(better) - len(kept))], *kept]

    def ranked(self, trials: Sequence[Trial], rounds: int) -> list[Trial]:
        """Those with a result at this many rounds, best first; the earlier one of equals."""
        results = self.journal.results
        known = [trial for trial in trials if (trial.number, rounds) in results]
        return sorted(known, key=lambda trial: (-self.score(results[trial.number, rounds]), trial.number))

    def best(self, trials: Sequence[Trial]) -> tuple[Trial, int]:
        """The best of the last stage that has results, and its rounds."""
        for rounds in reversed(self.rungs):
            if found := self.ranked(trials, rounds):
                return found[0], rounds
        raise InputError("the budget ended before a first result; give it more time")

    def _stage(self, trials: Sequence[Trial], rounds: int) -> bool:
        missing = [trial for trial in trials if (trial.number, rounds) not in self.journal.results]
        if not missing:
            return True
        if self.clock.over:
            return False
        runs = {
            trial.number: [trial.planned(self.folder, seed, rounds) for seed in self.seeds]
            for trial in missing
        }
        every = [planned for group in runs.values() for planned in group]
        left = [max(0, rounds - int(read_status(planned.folder).get("round", 0))) for planned in every]
        self.watching.on_stage(f"{len(missing)} trials to round {rounds}", sum(left))
        try:
            execute(every, self.jobs, self._follow)
            ended = list(missing)
        except TimeUp:
            # Of a stage that was cut short nothing counts, unless there is nothing else.
            first = not self.journal.results
            ended = [trial for trial in missing if first and all(map(done, runs[trial.number]))]
        for trial in ended:
            read = [read_run(planned.folder, begun=False) for planned in runs[trial.number]]
            self.journal.result(trial.number, rounds, result(read, rounds))
        self.journal.note(spent=self.clock.spent)
        return len(ended) == len(missing)

    def _follow(self, planned: Planned, record: Record | None) -> None:
        self.watching.on_round(planned, record)
        if self.clock.over:
            raise TimeUp


def rungs_of(rounds: int) -> list[int]:
    """The rounds at which trials are compared."""
    return sorted({max(1, round(share * rounds)) for share in SHARES})


def result(runs: Sequence[RunRecords], rounds: int) -> Result:
    """What the runs of a trial reached by a round, whether or not they went on since."""
    averaged = any(run.checked_config.averaging is not None for run in runs)
    newest = _reached(runs, rounds, "sent.") if averaged else (math.nan, math.nan)
    seconds = float(np.mean([run.status.get("seconds", math.nan) for run in runs]))
    return Result(*_reached(runs, rounds), seconds, *newest)


def _reached(runs: Sequence[RunRecords], rounds: int, model: str = "") -> tuple[float, float]:
    forgetting = [_until(run, f"{model}forgetting.round", rounds) for run in runs]
    return (
        float(np.mean([accuracy_at(run, rounds, model) for run in runs])),
        float(known_mean([mean_over_rounds(values, at) for at, values in forgetting])),
    )


def accuracy_at(run: RunRecords, rounds: int, model: str = "") -> float:
    """Mean validation accuracy (or F1 or R²) over the last rounds before a round; of a run that diverged 0.

    It is that of the evaluated model, or of the one that clients receive ("sent.").
    """
    if run.status["state"] == "diverged":
        return run.task.floor
    at, values = _until(run, f"{model}validation.{run.task.metric}", rounds)
    last = min(run.checked_config.evaluation.last, max(1, rounds // 4))
    return mean_at_end(values, at, last)


def _until(run: RunRecords, path: str, rounds: int) -> tuple[Any, Any]:
    at, values = run.series(path)
    return at[at <= rounds], values[at <= rounds]


def compared_rounds(config: Config) -> int:
    """The last rounds of a stage that trials are compared by."""
    return max(1, min(config.evaluation.last, max(2, config.rounds // 8)))


def search_values(values: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """Values for runs that are searched over: validated before they are compared, never tested."""
    kept = {key: value for key, value in values.items() if key not in ("stop", "track", "metrics")}
    return merge(
        kept,
        {
            "evaluation": {
                # A stage ends with its last rounds, which are all that is compared.
                "every": 0,
                "last": compared_rounds(config),
                "validation": True,
                "test": False,
                "personal": 0,
            },
            "probes": [],
        },
    )


def check_validation(federation: Federation) -> None:
    """Refuse to search without the data that decide."""
    if not len(federation.pooled("validation")[0]):
        raise InputError(
            "a search decides on validation data and no client has any: set split.validation (to 0.1, say)"
        )
