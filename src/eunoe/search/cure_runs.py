"""The runs of a cure: trials of the search, and baseline and winner on fresh seeds."""

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from eunoe.analysis.remedies import Remedy
from eunoe.config.schema import Config
from eunoe.config.settings import merge
from eunoe.search.budget import Clock, TimeUp
from eunoe.search.halving import Callbacks, Trial
from eunoe.search.remedies import Variants, select_objects
from eunoe.simulation.build import UserObjects
from eunoe.simulation.hooks import Record
from eunoe.simulation.many import Planned, execute, is_done
from eunoe.simulation.run import Run
from eunoe.store.reader import read_status
from eunoe.store.run_records import without_averaging

# So many seeds run at a time, so that complete pairs are there when the time is up.
AT_ONCE = 5


def list_seeds(first: int, count: int, excluded: int) -> list[int]:
    """Return seeds from a first one on, without the one that is excluded."""
    return [seed for seed in range(first, first + count + 1) if seed != excluded][:count]


@dataclass(frozen=True)
class CureRuns:
    """The runs of a cure in a folder; `values` and `config` are those of the baseline.

    `samples` is the number of validation samples that pick checkpoints and remedies, `seed` that of the run.
    """

    folder: Path
    values: Mapping[str, Any]
    config: Config
    objects: UserObjects
    jobs: int
    callbacks: Callbacks
    samples: int
    seed: int

    def label(self, remedy: Remedy) -> str:
        """Return the remedy's label; the baseline has the title of its config."""
        return remedy.label or self.config.title

    def own_variant(self, variants: Variants) -> Remedy:
        """Return the variant with the run's own averaging."""
        return variants.newest if self.config.averaging is None else variants.averaged

    def trial(self, variants: Variants, number: int) -> Trial:
        """Return the trial of a remedy: it shows both variants, on validation data only."""
        values = merge(self._values(variants.averaged), {"evaluation": {"test": False}})
        values.pop("metrics", None)
        label = self.label(self.own_variant(variants))
        return Trial(number, label, values, select_objects(variants.averaged, self.objects))

    def is_averaging_alone(self, remedy: Remedy) -> bool:
        """Whether a remedy changes no training, so that its runs show the baseline too."""
        return remedy.label == "averaging" and self.config.averaging is None

    def confirm(
        self, baseline: Remedy, winner: Remedy, seeds: Sequence[int], clock: Clock
    ) -> tuple[list[Run], list[Run]]:
        """Run baseline and winner on fresh seeds; return the pairs that ended before the budget did."""
        rounds, folder = self.config.rounds, self.folder / "runs"
        alone = self.is_averaging_alone(winner)
        arms = [
            Trial(0, self.label(remedy), self._values(remedy), select_objects(remedy, self.objects))
            for remedy in ((winner,) if alone else (baseline, winner))
        ]
        pairs = [[arm.plan_run(folder, seed, rounds) for arm in arms] for seed in seeds]
        left = [rounds - int(read_status(run.folder).get("round", 0)) for pair in pairs for run in pair]
        if any(left):
            title = f"{self.label(winner)} against the baseline, {len(seeds)} fresh seeds"
            self.callbacks.on_stage(title, sum(left))

        def on_round(planned: Planned, record: Record | None) -> None:
            self.callbacks.on_round(planned, record)
            if clock.over:
                raise TimeUp

        with suppress(TimeUp):
            for start in range(0, len(pairs), AT_ONCE):
                execute([run for pair in pairs[start : start + AT_ONCE] for run in pair], self.jobs, on_round)
        ended = list(takewhile(lambda pair: all(map(is_done, pair)), pairs))
        before, after = ([Run(pair[arm].folder) for pair in ended] for arm in (0, -1))
        return [_without_averaging(run, self.label(baseline)) for run in before] if alone else before, after

    def _values(self, remedy: Remedy) -> dict[str, Any]:
        values = remedy.apply(self.values, self.config)
        assert values is not None
        return values


def _without_averaging(run: Run, title: str) -> Run:
    """Return a run with averaging as the one without: its numbers, but the weights of the averaged model."""
    other = copy.copy(run)
    other.read = without_averaging(run.read, title)
    other.values = other.read.config
    return other
