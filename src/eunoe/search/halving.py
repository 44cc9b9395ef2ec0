"""Successive halving over rounds: all trials run a quarter of the rounds, the better ones continue to half of
the rounds, the better ones of those to the end.

A trial's score is the mean over its seeds of a validation score; the test set is never read. Scores alone
decide which trials continue: the better half, or all that are not significantly worse than the best. A stage
that the budget cuts short promotes no trial, and its runs can be resumed.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from eunoe.config.schema import Config
from eunoe.config.settings import merge
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.metrics.forgetting import known_mean, mean_at_end, mean_over_rounds
from eunoe.report.progress import StageBars, interactive
from eunoe.search.journal import Journal, Scores
from eunoe.search.sweep import folder_name
from eunoe.simulation.hooks import Record
from eunoe.simulation.many import OnSweepRound, Planned, execute, is_done
from eunoe.store.reader import read_run, read_status
from eunoe.store.run_records import RunRecords

SHARES = (0.25, 0.5, 1.0)
# Trials that run to the end at least, and the smallest difference by which one is dropped.
FINALISTS, LEAST_REACH = 3, 0.08
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class TimeUp(KeyboardInterrupt):
    """The budget is used up: runs end as on Ctrl-C and can be resumed."""


class Clock:
    """A budget in seconds (None: unlimited), and the seconds spent, including earlier sessions."""

    def __init__(self, budget: float | None, spent: float = 0.0) -> None:
        self.budget, self._before, self._began = budget, spent, time.monotonic()

    @property
    def spent(self) -> float:
        return self._before + time.monotonic() - self._began

    @property
    def over(self) -> bool:
        return self.budget is not None and self.spent >= self.budget


def parse_budget(text: str | float) -> float:
    """Return seconds from a number of seconds or from text such as 90s, 15m or 2h."""
    if not isinstance(text, str):
        seconds = float(text)
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh])\s*", text)
        if not match:
            raise InputError(f"invalid budget {text!r}: write it as 90s, 15m or 2h")
        seconds = float(match[1]) * _UNITS[match[2]]
    if not 0 < seconds < float("inf"):
        raise InputError(f"the budget must be positive and finite, not {text!r}")
    return seconds


def format_budget(seconds: float) -> str:
    """Format seconds as a budget, rounded up."""
    whole = int(-(-seconds // 1))
    return f"{whole}s" if whole < 120 else f"{-(-whole // 60)}m"


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


@contextmanager
def show_progress(visible: bool | None = True) -> Iterator[Callbacks]:
    """Yield callbacks that draw a progress bar per stage; by default (None) where it can be redrawn."""
    console = Console()
    if interactive(console) if visible is None else visible:
        with StageBars(console) as bars:
            yield Callbacks(bars.stage, bars.count)
    else:
        yield Callbacks()


@dataclass(frozen=True)
class Halving:
    """Successive halving of trials in a folder: `rungs` are the rounds after which trials are compared.

    `measure` computes the scores of a trial's runs after some rounds. With `samples`, the number of
    validation samples of a run, a trial is dropped only if it is behind the best by more than the 95%
    interval of a difference, and at least three continue; else the better half continues.
    """

    folder: Path
    seeds: Sequence[int]
    rungs: Sequence[int]
    jobs: int
    journal: Journal
    clock: Clock
    callbacks: Callbacks = field(default_factory=Callbacks)
    measure: Callable[[Sequence[RunRecords], int], Scores] = field(default_factory=lambda: score_runs)
    samples: int = 0
    # Whether runs give the bits of the serial engine.
    exact: bool = False

    def run(self, trials: Sequence[Trial], rivals: Sequence[Trial] = ()) -> bool:
        """Run all stages; return whether they ended before the budget did.

        `rivals` are trials that have run before; those that reached a stage are compared with the trials.
        """
        for rounds in self.rungs:
            if not self.run_stage(trials, rounds):
                return False
            if self.samples:
                trials = self._drop_worse(trials, rivals, rounds)
            else:
                trials = self.rank(trials, rounds)[: math.ceil(len(trials) / 2)]
        return True

    def rank(self, trials: Sequence[Trial], rounds: int) -> list[Trial]:
        """Sort the trials that have scores at this many rounds, best first; more seeds come before fewer."""

        def key(trial: Trial) -> tuple[float, float, int]:
            scores = self.journal.scores[trial.number, rounds]
            return -scores.seeds, -scores.best, trial.number

        known = [trial for trial in trials if (trial.number, rounds) in self.journal.scores]
        return sorted(known, key=key)

    def _drop_worse(self, trials: Sequence[Trial], rivals: Sequence[Trial], rounds: int) -> list[Trial]:
        """Drop the trials that are significantly worse than the best at this stage, down to three."""
        ranked = self.rank([*rivals, *trials], rounds)
        scores = {trial.number: self.journal.scores[trial.number, rounds].best for trial in ranked}
        best = scores[ranked[0].number]
        share = min(max(best, 0.05), 0.95)
        reach = 1.96 * math.sqrt(2 * share * (1 - share) / (self.samples * len(self.seeds)))
        kept = [trial for trial in ranked if scores[trial.number] >= best - max(reach, LEAST_REACH)]
        kept = max(kept, ranked[:FINALISTS], key=len)
        # The baseline is trial 0: all are compared with it in the end.
        return [trial for trial in trials if trial in kept or not trial.number]

    def run_stage(self, trials: Sequence[Trial], rounds: int) -> bool:
        """Run trials to some rounds and score them; return whether they ended before the budget did."""
        missing = [
            trial
            for trial in trials
            if (scores := self.journal.scores.get((trial.number, rounds))) is None
            or scores.seeds < len(self.seeds)
        ]
        if not missing:
            return True
        if self.clock.over:
            return False
        runs = {t.number: [t.plan_run(self.folder, seed, rounds) for seed in self.seeds] for t in missing}
        every = [planned for group in runs.values() for planned in group]
        left = [max(0, rounds - int(read_status(planned.folder).get("round", 0))) for planned in every]
        word = "trial" if len(missing) == 1 else "trials"
        self.callbacks.on_stage(f"{len(missing)} {word} to round {rounds}", sum(left))
        try:
            execute(every, self.jobs, self._follow, self.exact)
            ended = list(missing)
        except TimeUp:
            # A stage that was cut short does not count, unless it is the first.
            first = not self.journal.scores
            ended = [trial for trial in missing if first and all(map(is_done, runs[trial.number]))]
        for trial in ended:
            records = [read_run(planned.folder, begun=False) for planned in runs[trial.number]]
            scores = replace(self.measure(records, rounds), seeds=len(self.seeds))
            self.journal.add_scores(trial.number, rounds, scores)
        self.journal.note(spent=self.clock.spent)
        return len(ended) == len(missing)

    def _follow(self, planned: Planned, record: Record | None) -> None:
        self.callbacks.on_round(planned, record)
        if self.clock.over:
            raise TimeUp


def composed_privacy(folder: Path) -> list[str]:
    """Say what the private runs below a folder spend together, as a list of at most one sentence."""
    status = [read_status(path.parent).get("privacy") for path in sorted(folder.rglob("status.json"))]
    spent = [each for each in status if each]
    if not spent:
        return []
    # A run without noise has no bound: its epsilon is null.
    epsilons, deltas = zip(*((each.get("epsilon"), each.get("delta") or 0.0) for each in spent), strict=True)
    total = math.inf if None in epsilons else sum(epsilons)
    return [
        f"The {len(spent)} private runs in {folder} compose: together they spend epsilon = {total:.3g} at "
        f"delta = {sum(deltas):.3g} on the clients that they share."
    ]


def rungs_of(rounds: int, shares: Sequence[float] = SHARES) -> list[int]:
    """Return the rounds after which trials are compared."""
    return sorted({max(1, round(share * rounds)) for share in shares})


def score_runs(runs: Sequence[RunRecords], rounds: int) -> Scores:
    """Return the scores of a trial's runs after some rounds, even if they have run further."""
    forgetting = [mean_over_rounds(*_series_until(run, "forgetting.round", rounds)) for run in runs]
    return Scores(
        float(np.mean([accuracy_at(run, rounds) for run in runs])),
        float(known_mean(forgetting)),
        float(np.mean([run.status.get("seconds", math.nan) for run in runs])),
    )


def accuracy_at(run: RunRecords, rounds: int) -> float:
    """Return the mean validation accuracy (or F1 or R²) over the last rounds up to one; 0 if diverged."""
    if run.status["state"] == "diverged":
        return run.task.floor
    last = min(run.checked_config.evaluation.last, max(1, rounds // 4))
    return mean_at_end(*_series_until(run, f"validation.{run.task.metric}", rounds), last)


def _series_until(run: RunRecords, path: str, rounds: int) -> tuple[Any, Any]:
    at, values = run.series(path)
    return values[at <= rounds], at[at <= rounds]


def search_values(values: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """Return values for the runs of a search: evaluated on validation data at the end of a stage only."""
    common = {key: value for key, value in values.items() if key not in ("stop", "track", "metrics")}
    last = max(1, min(config.evaluation.last, max(2, config.rounds // 8)))
    evaluation = {"every": 0, "last": last, "validation": True, "test": False, "personal": 0}
    return merge(common, {"evaluation": evaluation, "probes": []})


def check_validation(federation: Federation) -> None:
    """Raise an InputError if no client has validation data."""
    if not len(federation.pooled("validation")[0]):
        raise InputError("a search needs validation data, and no client has any: set split.validation=0.1")
