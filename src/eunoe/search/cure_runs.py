"""The runs of a cure: those of its search, and those on fresh seeds that judge the best remedy."""

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from eunoe.analysis.remedies import Remedy
from eunoe.config.schema import Config
from eunoe.search.budget import Clock, TimeUp
from eunoe.search.cure_plan import SearchClock
from eunoe.search.halving import Callbacks, Halving, Trial, rungs_of, search_values
from eunoe.search.journal import Journal
from eunoe.search.remedies import Variants, kept_objects
from eunoe.search.sweep import Planned, execute, is_done
from eunoe.simulation.build import UserObjects
from eunoe.simulation.hooks import Record
from eunoe.simulation.run import Run
from eunoe.store.reader import read_status
from eunoe.store.run_records import without_averaging

# Averaging alone is preferred within a point of the best: it changes no training, so its gain varies least
# between seeds, and each of its runs shows the baseline too.
NEAR = 0.01


@dataclass(frozen=True)
class CureRuns:
    """The runs of a cure in a folder; `values` and `config` are those of the baseline."""

    folder: Path
    values: Mapping[str, Any]
    config: Config
    objects: UserObjects
    jobs: int
    callbacks: Callbacks

    def label(self, remedy: Remedy) -> str:
        """Return the remedy's name; the baseline has the title of its config."""
        return remedy.name or self.config.title

    def search(
        self, variants: Sequence[Variants], seeds: Sequence[int], journal: Journal, clock: SearchClock
    ) -> Remedy:
        """Return the best variant of the best remedy, resuming a search in the journal."""
        trials = []
        for number, (newest, averaged) in enumerate(variants):
            # A run shows both variants and is labeled by the one with the run's own averaging.
            label = self.label(newest if self.config.averaging is None else averaged)
            trial = self._trial(averaged)
            values = search_values(trial.values, self.config)
            trials.append(Trial(number, label, values, trial.objects))
            journal.add_trial(number, label, averaged.changes)
        if "winner" not in journal.notes:

            def on_round(planned: Planned, record: Record | None) -> None:
                self.callbacks.on_round(planned, record)
                if record is not None:
                    clock.tick()

            halving = Halving(
                self.folder / "search",
                seeds,
                rungs_of(self.config.rounds),
                self.jobs,
                journal,
                clock,
                Callbacks(self.callbacks.on_stage, on_round),
                score=lambda scores: scores.best,
                keep=0,
            )
            halving.run(trials)
            best, reached = halving.best(trials)
            scores, baseline = journal.scores[best.number, reached], journal.scores.get((0, reached))
            number, mean = best.number, bool(scores.accuracy > scores.newest_accuracy)
            near = baseline and baseline.accuracy > max(baseline.newest_accuracy, scores.best - NEAR)
            if near and self.config.averaging is None:
                number, mean = 0, True
            journal.note(winner=number, mean=mean, reached=reached)
        winner = variants[int(journal.notes["winner"])]
        return winner.averaged if journal.notes["mean"] else winner.newest

    def is_averaging_alone(self, remedy: Remedy) -> bool:
        """Whether a remedy changes no training, so that its runs show the baseline too."""
        alone = remedy.changes.keys() == {"averaging"} and (remedy.lr, remedy.epochs) == (1.0, 1.0)
        return alone and self.config.averaging is None

    def confirm(
        self, baseline: Remedy, winner: Remedy, seeds: Sequence[int], clock: Clock
    ) -> tuple[list[Run], list[Run]]:
        """Run baseline and winner on fresh seeds; return the pairs that ended before the budget did."""
        rounds, folder = self.config.rounds, self.folder / "runs"
        alone = self.is_averaging_alone(winner)
        arms = [self._trial(remedy) for remedy in ((winner,) if alone else (baseline, winner))]
        # Seed by seed, so that complete pairs are there when the time is up.
        pairs = [[arm.plan_run(folder, seed, rounds) for arm in arms] for seed in seeds]
        runs = [planned for pair in pairs for planned in pair]
        left = [rounds - int(read_status(planned.folder).get("round", 0)) for planned in runs]
        if any(left):
            title = f"{winner.name} against the baseline, {len(seeds)} fresh seeds"
            self.callbacks.on_stage(title, sum(left))

        def on_round(planned: Planned, record: Record | None) -> None:
            self.callbacks.on_round(planned, record)
            if clock.over:
                raise TimeUp

        with suppress(TimeUp):
            execute(runs, self.jobs, on_round)
        ended = list(takewhile(lambda pair: all(map(is_done, pair)), pairs))
        before, after = ([Run(pair[arm].folder) for pair in ended] for arm in (0, -1))
        return [_without_averaging(run, self.label(baseline)) for run in before] if alone else before, after

    def _trial(self, remedy: Remedy) -> Trial:
        values = remedy.apply(self.values, self.config)
        assert values is not None
        return Trial(0, self.label(remedy), values, kept_objects(remedy, self.objects))


def _without_averaging(run: Run, title: str) -> Run:
    """Return a run with averaging as the one without: its numbers, but the weights of the averaged model."""
    other = copy.copy(run)
    other.read = without_averaging(run.read, title)
    other.values = other.read.config
    return other
