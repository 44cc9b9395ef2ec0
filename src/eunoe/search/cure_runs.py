"""The runs of a cure: those of its search, and those on fresh seeds that judge what was found."""

import copy
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from eunoe.config.schema import Config
from eunoe.search.budget import Clock, TimeUp
from eunoe.search.cure_plan import SearchClock
from eunoe.search.halving import Halving, Trial, Watching, rungs_of, search_values
from eunoe.search.journal import Journal
from eunoe.search.remedies import Candidate, Forms
from eunoe.search.sweep import Planned, done, execute
from eunoe.simulation.loop import Record
from eunoe.simulation.run import Run
from eunoe.store.reader import read_status
from eunoe.store.run_records import by_newest_model

# Averaging alone is taken where it is within a point of the best: it changes no training, so its gain varies
# least from seed to seed, and each of its runs shows the run as it is too.
NEAR = 0.01


@dataclass(frozen=True)
class CureRuns:
    """Where a cure's runs are, what they have in common, and who is told how they go."""

    folder: Path
    config: Config
    jobs: int
    watching: Watching

    def searched(
        self, chosen: Sequence[Forms], seeds: Sequence[int], journal: Journal, clock: SearchClock
    ) -> Candidate:
        """The best form of the best trial; a search that was begun goes on."""
        trials = []
        for number, (newest, mean) in enumerate(chosen):
            # A run shows both forms, so it has the name of neither.
            label = newest.treatment.name if self.config.averaging is None else mean.treatment.name
            values = search_values(mean.values, self.config)
            trials.append(Trial(number, label or self.config.title, values, mean.given))
            journal.trial(number, trials[-1].label, dict(mean.treatment.changes))
        if "winner" not in journal.notes:

            def follow(planned: Planned, record: Record | None) -> None:
                self.watching.on_round(planned, record)
                if record is not None:
                    clock.tick()

            watching = Watching(self.watching.on_stage, follow)
            rungs, place = rungs_of(self.config.rounds), self.folder / "search"
            halving = Halving(
                place, seeds, rungs, self.jobs, journal, clock, watching, lambda result: result.best, kept=0
            )
            halving.run(trials)
            best, reached = halving.best(trials)
            found, base = journal.results[best.number, reached], journal.results.get((0, reached))
            number, averaged = best.number, bool(found.accuracy > found.newest_accuracy)
            near = base is not None and base.accuracy > max(base.newest_accuracy, found.best - NEAR)
            if near and self.config.averaging is None:
                number, averaged = 0, True
            journal.note(winner=number, mean=averaged, reached=reached)
        both = chosen[int(journal.notes["winner"])]
        return both.mean if journal.notes["mean"] else both.newest

    def shows_both(self, winner: Candidate) -> bool:
        """Whether a remedy is averaging alone: it changes no training, so its runs show the run as it is."""
        treatment = winner.treatment
        alone = treatment.changes.keys() == {"averaging"} and (treatment.lr, treatment.epochs) == (1.0, 1.0)
        return alone and self.config.averaging is None

    def repeated(
        self, as_it_is: Candidate, winner: Candidate, seeds: Sequence[int], clock: Clock
    ) -> tuple[list[Run], list[Run]]:
        """The runs of both on fresh seeds; only those of the first seeds if the time is over."""
        rounds, place = self.config.rounds, self.folder / "runs"
        alone = self.shows_both(winner)
        arms = [
            Trial(0, one.label, one.values, one.given) for one in ((winner,) if alone else (as_it_is, winner))
        ]
        # Seed by seed, so that what is there when the time is over are pairs.
        pairs = [[arm.planned(place, seed, rounds) for arm in arms] for seed in seeds]
        planned = [one for pair in pairs for one in pair]
        left = [rounds - int(read_status(one.folder).get("round", 0)) for one in planned]
        if any(left):
            title = f"{winner.label} against the run as it is, {len(seeds)} fresh seeds"
            self.watching.on_stage(title, sum(left))

        def follow(one: Planned, record: Record | None) -> None:
            self.watching.on_round(one, record)
            if clock.over:
                raise TimeUp

        with suppress(TimeUp):
            execute(planned, self.jobs, follow)
        ended = list(takewhile(lambda pair: all(map(done, pair)), pairs))
        before, after = ([Run(pair[arm].folder) for pair in ended] for arm in (0, -1))
        return [_without_averaging(one, as_it_is.label) for one in before] if alone else before, after


def _without_averaging(run: Run, title: str) -> Run:
    """A run that averages as the one that does not, by its numbers; its weights stay those of the mean."""
    other = copy.copy(run)
    other.read = by_newest_model(run.read, title)
    other.values = other.read.config
    return other
